"""Decode engines as the tests see them: runs in, planes out."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from reference import planes_of
from videodataset.decode.cpu import CpuEngine
from videodataset.decode.engine import DecodeRun, FrameSlot
from videodataset.index import VideoIndex
from videodataset.plan import Run, plan_runs
from videodataset.storage import Storage

Planes = list[NDArray[Any]]


class PlanesSlot:
    """Keeps a copy of the samples, and counts how often it was filled."""

    def __init__(self) -> None:
        self.planes: Planes = []
        self.filled = 0

    def fill(self, frame: Any) -> None:
        self.filled += 1
        self.planes = [plane.copy() for plane in planes_of(frame)]


class CpuHarness:
    """The CPU engine, and slots for it."""

    def __init__(self, threads: int) -> None:
        self.engine: Any = CpuEngine(threads)

    def slot(self, index: VideoIndex) -> Any:
        return PlanesSlot()

    def planes(self, slot: Any) -> Planes:
        planes: Planes = slot.planes
        return planes

    def is_filled(self, slot: Any) -> bool:
        assert slot.filled <= 1, "filled twice"
        return bool(slot.filled)

    def runs(self, storage: Storage, index: VideoIndex, pictures: Sequence[int]) -> list[DecodeRun[Any]]:
        """Runs with fresh slots."""
        return [
            DecodeRun(storage, index, run, {p: self.slot(index) for p in run.asked})
            for run in plan_runs(index, pictures)
        ]


class NvdecHarness(CpuHarness):
    """The NVDEC engine, and slots in device memory that begin with a pattern no picture has."""

    PATTERN = 0xA5

    def __init__(self) -> None:
        from videodataset.decode.nvdec import nvdec_engine

        self.engine = nvdec_engine(torch.device("cuda"))

    def slot(self, index: VideoIndex) -> Any:
        from videodataset.decode.nvdec import device_slots, surface_format

        surface = surface_format(index.info)
        assert surface is not None
        memory = torch.full((1, surface.size_bytes), self.PATTERN, dtype=torch.uint8, device="cuda")
        return device_slots(memory, surface)[0]

    def planes(self, slot: Any) -> Planes:
        """As FFmpeg has them: values of more than 8 bits in the low bits."""
        planes = [plane.cpu().numpy() for plane in slot.planes()]
        shift = 16 - slot.surface.depth
        return planes if slot.surface.depth == 8 else [plane.view("<u2") >> shift for plane in planes]

    def is_filled(self, slot: Any) -> bool:
        return any(bool((plane != plane.flat[0]).any()) for plane in (p.cpu().numpy() for p in slot.planes()))


def decode_planes(storage: Storage, index: VideoIndex, runs: Sequence[Run]) -> dict[int, Planes]:
    """Decode runs with the CPU engine; every asked picture has to come."""
    slots = [{p: PlanesSlot() for p in run.asked} for run in runs]
    work: list[DecodeRun[FrameSlot]] = [
        DecodeRun(storage, index, run, each) for run, each in zip(runs, slots, strict=True)
    ]
    assert CpuEngine().submit(work).wait() == [{} for _ in runs]
    return {p: slot.planes for each in slots for p, slot in each.items()}


def same_planes(got: Planes, want: Planes) -> bool:
    return len(got) == len(want) and all(np.array_equal(a, b) for a, b in zip(got, want, strict=True))
