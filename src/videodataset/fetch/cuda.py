"""Pictures to the caller's tensors on a GPU.

pictures NVDEC takes ──▶ slots in device memory ──────────────────────▶ converted together ──▶ places in asks
the others ──▶ FFmpeg on the CPU ──▶ planes in host memory ──▶ device ──▶ likewise
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import torch

from videodataset.convert import color_description, to_rgb
from videodataset.convert.color import UNSPECIFIED_MATRIX, ColorDescription
from videodataset.convert.device import SampleLayout
from videodataset.convert.layout import planar_layout, plane_samples
from videodataset.decode.cpu import cpu_engine
from videodataset.decode.engine import DecodeRun, FrameSlot, RunErrors
from videodataset.decode.nvdec import (
    DeviceSlot,
    NotDecodedHereError,
    NvdecEngine,
    device_slots,
    nvdec_engine,
    surface_format,
)
from videodataset.decode.surface import SurfaceFormat, planes_of
from videodataset.errors import NvdecUnavailableError, UnsupportedVideoError
from videodataset.fetch.ask import Ask, Output, first_error
from videodataset.fetch.base import Fetch
from videodataset.fetch.gpu_convert import PicturesToConvert, convert_on_gpu, place
from videodataset.fetch.work import Work, work_of
from videodataset.index.model import StreamInfo
from videodataset.plan import Run, plan_runs
from videodataset.videos import Video

_Key = tuple[int, int]  # id of the index, picture


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


class CudaFetch(Fetch):
    """Frames on their way to a GPU; see `Fetch`."""

    def __init__(self, asks: Sequence[Ask], device: torch.device, threads: int) -> None:
        self._asks, self._threads = asks, threads
        self._engine: NvdecEngine = nvdec_engine(device)
        self._device = torch.device("cuda", self._engine.device)
        # The asks' memory was allocated on this stream; whatever used it before is in front of this event.
        self._stream = torch.cuda.current_stream(self._device)
        self._free = self._stream.record_event()
        self.work = Work()
        self._videos: dict[int, Video] = {}  # by id of the index
        wanted: dict[int, set[int]] = {}
        self._pictures = [ask.pictures() for ask in asks]
        for ask, pictures_of_it in zip(asks, self._pictures, strict=True):
            index = id(ask.video.index)
            self._videos[index] = ask.video
            wanted.setdefault(index, set()).update(pictures_of_it)
        hardware: list[tuple[Video, set[int]]] = []
        software: list[tuple[Video, set[int]]] = []
        for index, pictures in wanted.items():
            video = self._videos[index]
            reason = self._engine.why_not(video.index.info)
            if reason is None:
                hardware.append((video, pictures))
            else:
                self._note_fallback(video, reason, len(pictures))
                software.append((video, pictures))
        self._slots: dict[int, dict[int, DeviceSlot]] = {}  # by id of the index and picture
        self._runs: list[DecodeRun[DeviceSlot]] = []
        self._ticket = self._submit_to_gpu(hardware) if hardware else None
        self._host: dict[_Key, _HostPlanes] = {}
        planned = [(video, run) for video, pictures in software for run in plan_runs(video.index, pictures)]
        self._host_runs, self._host_ticket = self._submit_to_cpu(planned)
        self._errors: list[Exception | None] | None = None

    def errors(self) -> list[Exception | None]:
        """See `Fetch.errors`."""
        if self._errors is not None:
            return self._errors
        failed: dict[_Key, Exception] = {}
        again: list[tuple[Video, Run]] = []
        for run, errors in zip(self._runs, self._ticket.wait() if self._ticket else [], strict=True):
            if not errors:
                continue
            _note(failed, run, errors)
            refused = next((error for error in errors.values() if isinstance(error, NotDecodedHereError)), None)
            if refused is not None:  # only now, by the stream's own headers
                video = self._videos[id(run.index)]
                self._note_fallback(video, str(refused), len(errors))
                again.append((video, run.run))
        late_runs, late_ticket = self._submit_to_cpu(again)
        for runs, ticket in ((self._host_runs, self._host_ticket), (late_runs, late_ticket)):
            for host_run, errors in zip(runs, ticket.wait(), strict=True):
                for picture in host_run.run.asked:
                    failed.pop((id(host_run.index), picture), None)
                _note(failed, host_run, errors)
        stream = torch.cuda.current_stream(self._device)
        used = {id(slot.memory): slot.memory for slots in self._slots.values() for slot in slots.values()}
        if stream != self._stream:
            stream.wait_event(self._free)
            used |= {id(ask.out): ask.out for ask in self._asks if ask.out is not None}
        self._convert(failed)
        for memory in used.values():
            memory.record_stream(stream)
        self._slots, self._host, self._runs, self._host_runs = {}, {}, [], []
        self._errors = [first_error(ask, failed) for ask in self._asks] if failed else [None] * len(self._asks)
        return self._errors

    def cancel(self) -> None:
        """Stop; asks may be written to until `errors` has returned."""
        if self._ticket:
            self._ticket.cancel()
        self._host_ticket.cancel()

    def _note_fallback(self, video: Video, reason: str, pictures: int) -> None:
        video.fallback_reason = reason
        self._engine.note_fallback(reason, pictures)
        self.work += Work(fallbacks=pictures)

    def _submit_to_cpu(self, planned: Sequence[tuple[Video, Run]]) -> tuple[list[DecodeRun[FrameSlot]], Any]:
        runs: list[DecodeRun[FrameSlot]] = []
        for video, run in planned:
            slots = {p: _HostPlanes(video.index.info, video.name) for p in run.asked}
            self._host.update({(id(video.index), p): slot for p, slot in slots.items()})
            runs.append(DecodeRun(video.storage, video.index, run, slots))
        self.work += work_of(runs)
        return runs, cpu_engine(self._threads).submit(runs)

    def _submit_to_gpu(self, videos: Sequence[tuple[Video, set[int]]]) -> Any:
        """Plan, take slots, those of one format in one piece of memory, and submit."""
        counts: dict[SurfaceFormat, int] = {}
        surfaces = []
        for video, pictures in videos:
            surface = surface_format(video.index.info)
            assert surface is not None, "why_not has passed it"
            surfaces.append(surface)
            counts[surface] = counts.get(surface, 0) + len(pictures)
        with torch.cuda.stream(self._engine.stream):
            free = {surface: iter(self._memory(surface, count)) for surface, count in counts.items()}
            for (video, pictures), surface in zip(videos, surfaces, strict=True):
                of_video = self._slots[id(video.index)] = dict(zip(sorted(pictures), free[surface], strict=False))
                for run in plan_runs(video.index, pictures):
                    slots = {picture: of_video[picture] for picture in run.asked}
                    self._runs.append(DecodeRun(video.storage, video.index, run, slots))
            self.work += work_of(self._runs)
            return self._engine.submit(self._runs)

    def _memory(self, surface: SurfaceFormat, count: int) -> list[DeviceSlot]:
        try:
            memory = torch.empty((count, surface.size_bytes), dtype=torch.uint8, device=self._device)
        except torch.cuda.OutOfMemoryError as error:
            raise NvdecUnavailableError(
                f"the GPU's memory is exhausted: {count} pictures of {surface.size_bytes} bytes do not fit. "
                f"Free some, or ask for fewer frames at a time."
            ) from error
        return device_slots(memory, surface)

    def _convert(self, failed: dict[_Key, Exception]) -> None:
        """Convert every picture that came out; note those that cannot be converted."""
        groups: dict[Any, PicturesToConvert] = {}
        for ask, pictures in zip(self._asks, self._pictures, strict=True):
            index = id(ask.video.index)
            slots = self._slots.get(index)
            if failed or self._host:
                self._convert_each(groups, ask, pictures, failed)
                continue
            assert slots is not None
            try:
                group = self._group(groups, ask, slots[pictures[0]])
            except UnsupportedVideoError as error:
                failed[index, pictures[0]] = error
                continue
            group.rows += [slots[picture].row for picture in pictures]
            group.places.append((ask, ask.first, len(pictures)))
        convert_on_gpu(list(groups.values()))

    def _convert_each(
        self, groups: dict[Any, PicturesToConvert], ask: Ask, pictures: list[int], failed: dict[_Key, Exception]
    ) -> None:
        """Convert an ask of whose pictures some may have failed, or been decoded on the CPU."""
        index = id(ask.video.index)
        for row, picture in enumerate(pictures, ask.first):
            key = (index, picture)
            if key in failed:
                continue
            try:
                if key in self._host:
                    self._convert_host_planes(ask, row, self._host[key])
                    continue
                slot = self._slots[index][picture]
                group = self._group(groups, ask, slot)
            except UnsupportedVideoError as error:
                failed[key] = error
                continue
            group.rows.append(slot.row)
            group.places.append((ask, row, 1))

    def _group(self, groups: dict[Any, PicturesToConvert], ask: Ask, slot: DeviceSlot) -> PicturesToConvert:
        """Return the pictures that an ask's are converted with: slots of one format lie in one piece of memory."""
        info = ask.video.index.info
        format_of_it = (info.pixel_format, info.width, info.height, info.color_matrix, info.color_range)
        key = (format_of_it, info.orientation, id(ask.output))  # asks of one batch share their output
        group = groups.get(key)
        if group is None:
            layout = SampleLayout(slot.surface.depth, in_high_bits=True)
            planes, color = planes_of(slot.memory, slot.surface), _color(info, ask.output, ask.video.name)
            group = groups[key] = PicturesToConvert(planes, layout, color, info.orientation, ask.output)
        return group

    def _convert_host_planes(self, ask: Ask, row: int, host: _HostPlanes) -> None:
        info = ask.video.index.info
        if host.size != (info.height, info.width) and ask.out is not None:
            raise UnsupportedVideoError(
                f"{ask.video.name}: the picture size changes inside the stream, from {info.width}x{info.height} to "
                f"{host.size[1]}x{host.size[0]}; one batch holds one size. Ask for frames of one size at a time."
            )
        planes = [plane[None].to(self._device) for plane in host.planes]
        if host.layout is not None:
            output = ask.output
            convert_on_gpu(
                [PicturesToConvert(planes, host.layout, host.color, info.orientation, output, [0], [(ask, row, 1)])]
            )
        elif ask.output.kind == "rgb":
            place(planes[0].permute(0, 3, 1, 2), ask.output, [(ask, row, 1)])  # to_rgb has turned it
        else:
            raise UnsupportedVideoError(f"{ask.video.name}: {info.pixel_format} has no planes. Ask for rgb.")


def _note(failed: dict[_Key, Exception], run: DecodeRun[Any], errors: RunErrors) -> None:
    for picture, error in errors.items():
        failed[id(run.index), picture] = error


def _color(info: StreamInfo, output: Output, name: str) -> ColorDescription | None:
    if output.kind != "rgb":
        return None
    return color_description(info.color_matrix, info.color_range, info.pixel_format or "", name)
