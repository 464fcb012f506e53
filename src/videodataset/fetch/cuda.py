"""Pictures to the caller's tensors on a GPU.

pictures NVDEC takes ──▶ slots in device memory ──────────────────────▶ converted together, by format ──▶ targets
the others ──▶ FFmpeg on the CPU ──▶ planes in host memory ──▶ device ──▶ likewise
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import torch

from videodataset.convert import color_description, to_rgb
from videodataset.convert.color import UNSPECIFIED_MATRIX, ColorDescription
from videodataset.convert.device import SampleLayout, coded_samples, cropped, finished, rgb_of, turned
from videodataset.convert.layout import planar_layout, plane_samples
from videodataset.decode.cpu import cpu_engine
from videodataset.decode.engine import DecodeRun, FrameSlot
from videodataset.decode.nvdec import DeviceSlot, NotDecodedHereError, NvdecEngine, nvdec_engine, surface_format
from videodataset.decode.surface import SurfaceFormat, planes_of
from videodataset.errors import NvdecUnavailableError, UnsupportedVideoError
from videodataset.fetch.ask import Ask, Output, Target
from videodataset.index.model import StreamInfo
from videodataset.plan import Run, plan_runs
from videodataset.videos import Video


@dataclass(slots=True)
class _Wanted:
    """A picture, and where it goes."""

    video: Video
    picture: int
    targets: list[Target] = field(default_factory=list)


@dataclass(slots=True)
class _HostPlanes:
    """A slot for the CPU engine: keeps a picture's planes, or its RGB where it has no planes."""

    info: StreamInfo
    name: str
    planes: list[torch.Tensor] = field(default_factory=list)
    layout: SampleLayout | None = None
    color: ColorDescription | None = None
    size: tuple[int, int] = (0, 0)

    def fill(self, frame: Any) -> None:
        """See `FrameSlot.fill`."""
        self.size = (frame.height, frame.width)
        layout = planar_layout(frame.format.name)
        if layout is None or layout.kind == "gbr":
            self.planes = [torch.from_numpy(to_rgb(frame, self.info, self.name))]
            return
        self.layout = SampleLayout(layout.depth, in_high_bits=False)
        matrix = self.info.color_matrix if frame.colorspace == UNSPECIFIED_MATRIX else frame.colorspace
        color_range = frame.color_range or self.info.color_range
        self.color = color_description(matrix, color_range, frame.format.name, self.name)
        count = 1 if layout.kind == "gray" else 3
        planes = [plane_samples(frame, k, layout) for k in range(count)]
        self.planes = [torch.from_numpy((p if layout.depth == 8 else p.view("int16")).copy()) for p in planes]


class CudaFetch:
    """Frames on their way to a GPU; see `Fetch`."""

    def __init__(self, asks: Sequence[Ask], device: torch.device, threads: int) -> None:
        self._asks, self._threads = asks, threads
        self._engine: NvdecEngine = nvdec_engine(device)
        self._device = torch.device("cuda", self._engine.device)
        self._wanted: dict[tuple[int, int], _Wanted] = {}
        for ask in asks:
            key = (id(ask.video.index), ask.picture)
            wanted = self._wanted.get(key)
            if wanted is None:
                wanted = self._wanted[key] = _Wanted(ask.video, ask.picture)
            wanted.targets.append(ask.target)
        by_video: dict[int, tuple[Video, list[int]]] = {}
        for wanted in self._wanted.values():
            by_video.setdefault(id(wanted.video.index), (wanted.video, []))[1].append(wanted.picture)
        hardware: list[tuple[Video, list[int]]] = []
        software: list[tuple[Video, list[int]]] = []
        for video, pictures in by_video.values():
            reason = self._engine.why_not(video.index.info)
            if reason is None:
                hardware.append((video, pictures))
            else:
                self._note_fallback(video, reason, len(pictures))
                software.append((video, pictures))
        self._slots = self._device_slots(hardware)
        self._runs: list[DecodeRun[DeviceSlot]] = [
            DecodeRun(video.storage, video.index, run, {p: self._slots[id(video.index), p][2] for p in run.asked})
            for video, pictures in hardware
            for run in plan_runs(video.index, pictures)
        ]
        self._ticket = self._engine.submit(self._runs) if self._runs else None
        self._host: dict[tuple[int, int], _HostPlanes] = {}
        planned = [(video, run) for video, pictures in software for run in plan_runs(video.index, pictures)]
        self._host_runs, self._host_ticket = self._submit_to_cpu(planned)
        self._errors: list[Exception | None] | None = None

    def wait(self) -> None:
        """See `Fetch.wait`; targets are filled as far as the current stream is concerned."""
        for error in self.errors():
            if error is not None:
                raise error

    def errors(self) -> list[Exception | None]:
        """See `Fetch.errors`."""
        if self._errors is not None:
            return self._errors
        failed: dict[tuple[int, int], Exception] = {}
        again: list[tuple[Video, Run]] = []
        for run, errors in zip(self._runs, self._ticket.wait() if self._ticket else [], strict=True):
            for picture, error in errors.items():
                failed[id(run.index), picture] = error
            refused = [error for error in errors.values() if isinstance(error, NotDecodedHereError)]
            if refused:  # only now, by the stream's own headers
                video = self._wanted[id(run.index), next(iter(run.run.asked))].video
                self._note_fallback(video, str(refused[0]), len(errors))
                again.append((video, run.run))
        late_runs, late_ticket = self._submit_to_cpu(again)
        for runs, ticket in ((self._host_runs, self._host_ticket), (late_runs, late_ticket)):
            for host_run, errors in zip(runs, ticket.wait(), strict=True):
                for picture in host_run.run.asked:
                    failed.pop((id(host_run.index), picture), None)
                for picture, error in errors.items():
                    failed[id(host_run.index), picture] = error
        self._convert_device_slots({key for key in self._slots if key not in failed and key not in self._host})
        for key, planes in self._host.items():
            if key not in failed:
                try:
                    self._convert_host_planes(self._wanted[key], planes)
                except UnsupportedVideoError as error:
                    failed[key] = error
        self._slots, self._host, self._runs, self._host_runs = {}, {}, [], []
        self._errors = [failed.get((id(ask.video.index), ask.picture)) for ask in self._asks]
        return self._errors

    def cancel(self) -> None:
        """Stop; targets may be written to until `errors` has returned."""
        if self._ticket:
            self._ticket.cancel()
        self._host_ticket.cancel()

    def _note_fallback(self, video: Video, reason: str, pictures: int) -> None:
        video.fallback_reason = reason
        self._engine.note_fallback(reason, pictures)

    def _submit_to_cpu(self, planned: Sequence[tuple[Video, Run]]) -> tuple[list[DecodeRun[FrameSlot]], Any]:
        runs: list[DecodeRun[FrameSlot]] = []
        for video, run in planned:
            slots = {p: _HostPlanes(video.index.info, video.name) for p in run.asked}
            self._host.update({(id(video.index), p): slot for p, slot in slots.items()})
            runs.append(DecodeRun(video.storage, video.index, run, slots))
        return runs, cpu_engine(self._threads).submit(runs)

    def _device_slots(
        self, hardware: Sequence[tuple[Video, list[int]]]
    ) -> dict[tuple[int, int], tuple[torch.Tensor, int, DeviceSlot]]:
        """Memory for pictures, those of one format in one piece: (the piece, row in it, slot) by (index, picture)."""
        by_format: dict[SurfaceFormat, list[tuple[int, int]]] = {}
        for video, pictures in hardware:
            surface = surface_format(video.index.info)
            assert surface is not None, "why_not has passed it"
            by_format.setdefault(surface, []).extend((id(video.index), picture) for picture in pictures)
        slots = {}
        for surface, keys in by_format.items():
            try:
                memory = torch.empty((len(keys), surface.size_bytes), dtype=torch.uint8, device=self._device)
            except torch.cuda.OutOfMemoryError as error:
                raise _out_of_memory(len(keys), surface.size_bytes) from error
            for row, key in enumerate(keys):
                slots[key] = (memory, row, DeviceSlot(memory[row], surface))
        return slots

    def _convert_device_slots(self, keys: set[tuple[int, int]]) -> None:
        """Convert pictures that are converted alike together."""
        alike: dict[Any, list[tuple[int, Target]]] = {}
        for key in keys:
            memory, row, slot = self._slots[key]
            wanted = self._wanted[key]
            info = wanted.video.index.info
            for target in wanted.targets:
                color = _color(info, target.output, wanted.video.name)
                group = (id(memory), slot.surface, color, info.orientation, target.output)
                alike.setdefault(group, []).append((row, target))
        memories = {id(memory): memory for memory, _, _ in self._slots.values()}
        for (memory_id, surface, color, orientation, output), entries in alike.items():
            memory = memories[memory_id]
            rows = [row for row, _ in entries]
            whole = rows == list(range(len(memory)))
            chosen = memory if whole else memory[torch.tensor(rows, device=self._device)]
            layout = SampleLayout(surface.depth, in_high_bits=True)
            pictures = turned(_pictures(planes_of(chosen, surface), layout, color, output), orientation)
            _place(pictures, output, [target for _, target in entries])

    def _convert_host_planes(self, wanted: _Wanted, host: _HostPlanes) -> None:
        info = wanted.video.index.info
        if host.size != (info.height, info.width) and any(target.out is not None for target in wanted.targets):
            raise UnsupportedVideoError(
                f"{wanted.video.name}: the picture size changes inside the stream, from {info.width}x{info.height} to "
                f"{host.size[1]}x{host.size[0]}; one batch holds one size. Ask for frames of one size at a time."
            )
        planes = [plane[None].to(self._device) for plane in host.planes]
        for target in wanted.targets:
            if host.layout is None:
                if target.output.kind != "rgb":
                    raise UnsupportedVideoError(f"{wanted.video.name}: {info.pixel_format} has no planes. Ask for rgb.")
                pictures = planes[0].permute(0, 3, 1, 2)  # to_rgb has turned it
            else:
                pictures = _pictures(planes, host.layout, host.color, target.output)
                pictures = turned(pictures, info.orientation)
            _place(pictures, target.output, [target])


def _pictures(
    planes: Sequence[torch.Tensor], layout: SampleLayout, color: ColorDescription | None, output: Output
) -> torch.Tensor:
    if output.kind == "rgb":
        assert color is not None
        return rgb_of(planes, layout, color)
    return coded_samples(planes, layout, output.kind)


def _color(info: StreamInfo, output: Output, name: str) -> ColorDescription | None:
    if output.kind != "rgb":
        return None
    return color_description(info.color_matrix, info.color_range, info.pixel_format or "", name)


def _place(pictures: torch.Tensor, output: Output, targets: Sequence[Target]) -> None:
    """Finish displayed pictures (N, C, H, W) and write each to its target."""
    pictures = cropped(pictures, output.transform, "crop")
    if output.kind == "rgb":
        pictures = finished(pictures, output.transform)
    channels_first = output.transform.dimension_order == "NCHW"
    laid_out = pictures if channels_first else pictures.permute(0, 2, 3, 1)
    for target, picture in zip(targets, laid_out, strict=True):
        if target.out is None:
            target.out = picture
        else:
            target.out.copy_(picture)


def _out_of_memory(count: int, size_bytes: int) -> Exception:
    return NvdecUnavailableError(
        f"the GPU's memory is exhausted: {count} pictures of {size_bytes} bytes do not fit. "
        f"Free some, or ask for fewer frames at a time."
    )
