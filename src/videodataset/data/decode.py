"""References to tensors: every reference of a call, whatever its file, in one plan."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, TypeAlias

import numpy as np
import torch

from videodataset.convert import Transform
from videodataset.data.frame_ref import FrameRef
from videodataset.errors import FrameIndexError
from videodataset.fetch import Ask, Output, fetch, require_device, target_device
from videodataset.frames import FrameBatch
from videodataset.index.times import check_tolerance, frames_nearest_to, frames_played_at
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
    group = Group([refs] if isinstance(refs, FrameRef) else list(refs), transform)
    values = Resolution([group], target_device(device), threads).wait()[0]
    return values[0] if one else values


@dataclass(slots=True)
class Group:
    """References that become one batch: those of one key of the samples."""

    refs: Sequence[FrameRef]
    transform: Transform | None = None


@dataclass(slots=True)
class _Part:
    """One reference, looked up in its video."""

    video: Video
    frames: np.ndarray[Any, np.dtype[np.int64]]  # of the reference's own shape, () or (n,)
    output: Output

    def memory(self, device: torch.device, leading: tuple[int, ...] = ()) -> torch.Tensor:
        return self.output.allocate((*leading, *self.frames.shape), self.video.index, device)

    def shape(self) -> tuple[Any, ...]:
        """What has to be equal for parts to be stacked."""
        index = self.video.index
        return (self.frames.shape, self.output.size(index), self.output.kind, self.output.dtype(index))

    def times(self) -> tuple[torch.Tensor, torch.Tensor]:
        index = self.video.index
        return (
            torch.from_numpy(np.asarray(index.frame_pts_seconds[self.frames], np.float64)),
            torch.from_numpy(np.asarray(index.frame_duration_seconds[self.frames], np.float64)),
        )


class Resolution:
    """Groups of references being decoded together.

    Args:
        groups: one for each key of a batch.
        device: where the frames go.
        threads: see `decode`.

    Raises:
        FrameIndexError, UnreadableVideoError, NoVideoStreamError, UnsupportedVideoError: before anything is decoded.
    """

    def __init__(self, groups: Sequence[Group], device: torch.device, threads: int | None = None) -> None:
        require_device(device)
        self._opened: dict[Any, Video] = {}
        self._groups = groups
        self._parts = [[self._look_up(ref, group.transform) for ref in group.refs] for group in groups]
        asks: list[Ask] = []
        self._data = [_allocate(parts, asks, device) for parts in self._parts]
        self.frames = sum(len(ask.frames) for ask in asks)
        self._fetch = fetch(asks, device, threads)

    def wait(self) -> list[Any]:
        """Return what each group has become. Raises what `decode` raises while decoding."""
        self._fetch.wait()
        return [
            _with_times(data, parts) if _want_times(group.refs) else data
            for group, parts, data in zip(self._groups, self._parts, self._data, strict=True)
        ]

    def cancel(self) -> None:
        """Stop decoding, and wait until nothing is written any more."""
        self._fetch.cancel()
        self._fetch.errors()

    def _look_up(self, ref: FrameRef, transform: Transform | None) -> _Part:
        key = (ref.source if isinstance(ref.source, str) else id(ref.source), ref.byte_range)
        video = self._opened.get(key)
        if video is None:
            video = self._opened[key] = videos.open(ref.source, ref.byte_range)
        options, transform = ref.options, transform or Transform()
        if options.output != "rgb":
            transform = Transform(dimension_order=transform.dimension_order)
        if options.crop is not None or options.size is not None:
            transform = replace(
                transform,
                crop=options.crop if options.crop is not None else transform.crop,
                size=options.size if options.size is not None else transform.size,
            )
        return _Part(video, _frame_numbers(video, ref), Output(options.output, transform))


def _frame_numbers(video: Video, ref: FrameRef) -> np.ndarray[Any, np.dtype[np.int64]]:
    index, name, values, options = video.index, video.name, ref.numbers, ref.options
    if not ref.by_time:
        count = len(index)
        if values.ndim == 0 and 0 <= values < count:
            return values
        outside = (values < -count) | (values >= count)
        if outside.any():
            wrong = int(values[outside].flat[0]) if values.ndim else int(values)
            raise FrameIndexError(f"{name}: no frame {wrong}; the video has {count} frames.")
        return np.where(values < 0, values + count, values)
    if options.match == "nearest":
        frames = frames_nearest_to(index, values, name, options.tolerance_s)
    else:
        frames = frames_played_at(index, values, name)
    if options.tolerance_s is not None:
        check_tolerance(index, frames, values, name, options.tolerance_s)
    return frames.reshape(values.shape)


def _allocate(parts: Sequence[_Part], asks: list[Ask], device: torch.device) -> torch.Tensor | list[torch.Tensor]:
    """Make memory for a group's pictures, and add an ask for each."""
    if not parts:
        return []
    equal = len({part.shape() for part in parts}) == 1
    data: torch.Tensor | list[torch.Tensor]
    data = parts[0].memory(device, (len(parts),)) if equal else [part.memory(device) for part in parts]
    for part, memory in zip(parts, data, strict=True):
        if part.frames.size:
            out = memory if part.frames.ndim else memory[None]
            asks.append(Ask(part.video, part.frames.reshape(-1), part.output, out))
    return data


def _want_times(refs: Sequence[FrameRef]) -> bool:
    wanted = {ref.options.times for ref in refs}
    if len(wanted) > 1:
        raise ValueError("some references of a batch ask for times and some do not; let all or none")
    return wanted == {True}


def _with_times(data: torch.Tensor | list[torch.Tensor], parts: Sequence[_Part]) -> FrameBatch | list[FrameBatch]:
    times = [part.times() for part in parts]
    if isinstance(data, torch.Tensor):
        return FrameBatch(data, torch.stack([pts for pts, _ in times]), torch.stack([span for _, span in times]))
    return [FrameBatch(one, pts, span) for one, (pts, span) in zip(data, times, strict=True)]
