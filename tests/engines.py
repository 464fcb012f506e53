"""Decode engines as the tests see them: runs in, planes out."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
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


def runs_for(storage: Storage, index: VideoIndex, pictures: Sequence[int]) -> list[DecodeRun[FrameSlot]]:
    """Runs with fresh slots."""
    return [DecodeRun(storage, index, run, {p: PlanesSlot() for p in run.asked}) for run in plan_runs(index, pictures)]


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
