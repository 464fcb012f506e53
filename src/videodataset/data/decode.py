"""References to tensors: every reference of a call, whatever its file, in one plan."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property, partial
from typing import Any, NamedTuple, TypeAlias

import numpy as np
import numpy.typing as npt
import torch

from videodataset.convert import Transform
from videodataset.data.columns import RefColumns
from videodataset.data.frame_ref import FrameRef, Options
from videodataset.decode.nvdec import surface_format
from videodataset.errors import FrameIndexError, VideoDatasetError
from videodataset.fetch import Ask, CachedFetch, Fetch, FrameCache, Output, Work, fetch, require_device, target_device
from videodataset.frames import FrameBatch
from videodataset.index.times import check_tolerance, frames_nearest_to, frames_played_at
from videodataset.storage import Source
from videodataset.videos import Video, videos

#: What references become: one tensor where shapes are equal, else a list; `FrameBatch` where times are asked for.
Decoded: TypeAlias = torch.Tensor | FrameBatch | list[torch.Tensor] | list[FrameBatch]


def decode(
    refs: FrameRef | Sequence[FrameRef],
    *,
    device: str | torch.device | None = None,
    transform: Transform | None = None,
    threads: int | None = None,
) -> Any:
    """Decode references.

    Args:
        refs: one reference, or several; pictures that several ask for are decoded once.
        device: where frames go: "cpu", "cuda", "cuda:1"; "auto", the GPU where there is one, and the CPU in a loader's
            worker; None for `torch.get_default_device()`.
        transform: what is made of the pictures; a reference's own `crop` and `size` win over it.
        threads: runs of pictures decoded at a time; 0 decodes in this thread; None takes one per core, and 0 in a
            loader's worker.

    Returns:
        For one reference (C, H, W), or (n, C, H, W) for n numbers; for several these stacked, (len(refs), ...), or a
        list where shapes differ. With `times` a `FrameBatch` of it.

    Raises:
        FrameIndexError: a frame or time outside its video; nothing is decoded then.
        DamagedVideoError: a frame cannot be decoded without error.
        UnreadableVideoError: a source cannot be read as a video.
        UnsupportedVideoError: a codec or pixel format without a decoder or conversion.
        NvdecUnavailableError: a CUDA device that is not there, without a video library, or out of memory.
        ForkedCudaError: a CUDA device in a process forked from one that has used it.
    """
    one = isinstance(refs, FrameRef)
    group = Group(RefColumns([refs] if isinstance(refs, FrameRef) else list(refs)), transform)
    values = Resolution([group], target_device(device), threads).wait()[0]
    return values[0] if one else values


@dataclass(slots=True)
class Group:
    """References that become one batch: those of one key of the samples."""

    columns: RefColumns
    transform: Transform | None = None

    def outputs(self) -> list[Output]:
        """What is made of the pictures, for each of the columns' options."""
        return [_output(options, self.transform or Transform()) for options in self.columns.options]


def _output(options: Options, transform: Transform) -> Output:
    if options.output != "rgb":
        transform = Transform(dimension_order=transform.dimension_order)
    if options.crop is not None or options.size is not None:
        transform = replace(
            transform,
            crop=options.crop if options.crop is not None else transform.crop,
            size=options.size if options.size is not None else transform.size,
        )
    return Output(options.output, transform)


class _Part(NamedTuple):
    """One reference, looked up in its video."""

    video: Video
    frames: npt.NDArray[np.int64]  # (n,)
    is_single: bool  # without the leading dimension
    output: Output
    shape: tuple[Any, ...]  # what has to be equal for parts to be stacked

    def memory(self, device: torch.device, leading: tuple[int, ...] = ()) -> torch.Tensor:
        if not self.is_single:
            leading = (*leading, len(self.frames))
        return self.output.allocate(leading, self.video.index, device)

    def frame_bytes(self, device: torch.device) -> int:
        """Memory that a frame takes until it is there: see `Resolution.size_bytes`."""
        index = self.video.index
        height, width = self.output.size(index)
        channels = 1 if self.output.kind == "gray16" else 3
        made = channels * height * width * self.output.dtype(index).itemsize
        surface = surface_format(index.info) if device.type == "cuda" else None
        return made + (surface.size_bytes if surface is not None else 0)

    def times(self) -> tuple[torch.Tensor, torch.Tensor]:
        index = self.video.index
        frames = self.frames[0] if self.is_single else self.frames
        return (
            torch.from_numpy(np.asarray(index.frame_pts_seconds[frames], np.float64)),
            torch.from_numpy(np.asarray(index.frame_duration_seconds[frames], np.float64)),
        )


class Resolution:
    """Groups of references, looked up; and decoded together from `start` on.

    Args:
        groups: one for each key of a batch.
        device: where the frames go.
        threads: see `decode`.
        cache: frames that need not be decoded.

    Attributes:
        frames: how many they ask for.

    Raises:
        FrameIndexError, UnreadableVideoError, NoVideoStreamError, UnsupportedVideoError: before anything is decoded.
    """

    def __init__(
        self,
        groups: Sequence[Group],
        device: torch.device,
        threads: int | None = None,
        cache: FrameCache | None = None,
    ) -> None:
        require_device(device)
        self._groups, self._device, self._threads, self._cache = groups, device, threads, cache
        opened = _Opened()
        self._parts = [_look_up(group, opened) for group in groups]
        self.frames = sum(len(part.frames) for parts in self._parts for part in parts)
        self._fetch: Fetch | None = None

    @cached_property
    def size_bytes(self) -> int:
        """Memory that `start` takes on the device, at most.

        These are the frames and, to a GPU, the decoded pictures that they are made from.
        """
        sizes: dict[Any, int] = {}
        total = 0
        for part in itertools.chain(*self._parts):
            info = part.video.index.info
            key = (part.shape[1:], info.pixel_format, info.width, info.height)
            size = sizes.get(key)
            if size is None:
                size = sizes[key] = part.frame_bytes(self._device)
            total += len(part.frames) * size
        return total

    def start(self) -> Resolution:
        """Take memory and begin to decode, unless that has been done; returns itself."""
        if self._fetch is None:
            asks: list[Ask] = []
            self._data = [_allocate(parts, asks, self._device) for parts in self._parts]
            # Without frames to fetch, a GPU's decoders are not asked for either.
            device = self._device if asks else torch.device("cpu")
            begin = partial(fetch, device=device, threads=self._threads)
            self._fetch = begin(asks) if self._cache is None else CachedFetch(asks, device, self._cache, begin)
        return self

    def wait(self) -> list[Any]:
        """Return what each group has become. Raises what `decode` raises while decoding."""
        self._started.wait()
        return self.values()

    @property
    def _started(self) -> Fetch:
        self.start()
        assert self._fetch is not None
        return self._fetch

    def failures(self) -> list[dict[int, Exception]]:
        """Wait, and return for each group which of its references failed, and why."""
        errors = iter(self._started.errors())  # of the references that ask for a frame at all
        return [
            {k: error for k, part in enumerate(parts) if len(part.frames) and (error := next(errors)) is not None}
            for parts in self._parts
        ]

    def values(self) -> list[Any]:
        """Return what each group has become, behind `failures`; what failed is not filled."""
        return [
            _with_times(data, parts) if _want_times(group.columns) else data
            for group, parts, data in zip(self._groups, self._parts, self._data, strict=True)
        ]

    @property
    def work(self) -> Work:
        """What decoding costs; complete when it has ended."""
        return Work() if self._fetch is None else self._fetch.work

    def cancel(self) -> None:
        """Stop decoding, and wait until nothing is written any more."""
        if self._fetch is not None:
            self._fetch.cancel()
            self._fetch.errors()


class _Opened:
    """Videos of one call, each opened once."""

    def __init__(self) -> None:
        self._videos: dict[Any, Video] = {}

    def open(self, source: Source, byte_range: tuple[int, int] | None) -> Video:
        key = (source if isinstance(source, str) else id(source), byte_range)
        video = self._videos.get(key)
        if video is None:
            video = self._videos[key] = videos.open(source, byte_range)
        return video


def failing_references(group: Group) -> dict[int, Exception]:
    """Return which references of a group cannot even be looked up, and why."""
    failing: dict[int, Exception] = {}
    opened = _Opened()
    for k, ref in enumerate(group.columns.refs()):
        try:
            _look_up(Group(RefColumns([ref]), group.transform), opened)
        except VideoDatasetError as error:
            failing[k] = error
    return failing


def _look_up(group: Group, opened: _Opened) -> list[_Part]:
    columns = group.columns
    of_sources = [opened.open(source, byte_range) for source, byte_range in columns.sources]
    frames, outputs = _frame_numbers(columns, of_sources), group.outputs()
    shapes: dict[Any, tuple[Any, ...]] = {}
    parts, at = [], 0
    for k, source, option in zip(
        columns.lengths.tolist(), columns.source_of.tolist(), columns.option_of.tolist(), strict=True
    ):
        video, output, count = of_sources[source], outputs[option], abs(k)
        index = video.index
        key = (option, index.displayed_size, index.info.pixel_format)
        made = shapes.get(key)
        if made is None:
            made = shapes[key] = (output.kind, output.dtype(index), *output.size(index))
        parts.append(_Part(video, frames[at : at + count], k < 0, output, (k, *made)))
        at += count
    return parts


def _frame_numbers(columns: RefColumns, opened: Sequence[Video]) -> npt.NDArray[np.int64]:
    """The displayed frames of all references, one after another."""
    counts = np.array([len(video.index) for video in opened], np.int64)
    limits = np.repeat(counts[columns.source_of], np.abs(columns.lengths))
    values = columns.numbers
    if not columns.by_time.any() and ((values >= -limits) & (values < limits)).all():
        return np.where(values < 0, values + limits, values)
    frames = [_frames_of(opened[k], ref) for k, ref in zip(columns.source_of, columns.refs(), strict=True)]
    return np.concatenate(frames) if frames else np.empty(0, np.int64)


def _frames_of(video: Video, ref: FrameRef) -> npt.NDArray[np.int64]:
    index, name, values, options = video.index, video.name, ref.numbers.reshape(-1), ref.options
    if not ref.by_time:
        count = len(index)
        outside = (values < -count) | (values >= count)
        if outside.any():
            raise FrameIndexError(f"{name}: no frame {int(values[outside][0])}; the video has {count} frames.")
        return np.where(values < 0, values + count, values)
    if options.match == "nearest":
        frames = frames_nearest_to(index, values, name, options.tolerance_s)
    else:
        frames = frames_played_at(index, values, name)
    if options.tolerance_s is not None:
        check_tolerance(index, frames, values, name, options.tolerance_s)
    return frames


def _allocate(parts: Sequence[_Part], asks: list[Ask], device: torch.device) -> torch.Tensor | list[torch.Tensor]:
    """Make memory for a group's pictures, and add an ask for each."""
    if not parts:
        return []
    equal = len({part.shape for part in parts}) == 1
    data: torch.Tensor | list[torch.Tensor]
    data = parts[0].memory(device, (len(parts),)) if equal else [part.memory(device) for part in parts]
    if isinstance(data, torch.Tensor):
        rows = data if parts[0].is_single else data.flatten(0, 1)
        count = len(parts[0].frames)
        asks += [Ask(part.video, part.frames, part.output, rows, k * count) for k, part in enumerate(parts) if count]
    else:
        asks += [
            Ask(part.video, part.frames, part.output, memory[None] if part.is_single else memory)
            for part, memory in zip(parts, data, strict=True)
            if len(part.frames)
        ]
    return data


def _want_times(columns: RefColumns) -> bool:
    wanted = {options.times for options in columns.options}
    if len(wanted) > 1:
        raise ValueError("some references of a batch ask for times and some do not; let all or none")
    return wanted == {True}


def _with_times(data: torch.Tensor | list[torch.Tensor], parts: Sequence[_Part]) -> FrameBatch | list[FrameBatch]:
    times = [part.times() for part in parts]
    if isinstance(data, torch.Tensor):
        return FrameBatch(data, torch.stack([pts for pts, _ in times]), torch.stack([span for _, span in times]))
    return [FrameBatch(one, pts, span) for one, (pts, span) in zip(data, times, strict=True)]
