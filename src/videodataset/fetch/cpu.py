"""Pictures to the caller's tensors on the CPU: converted as soon as FFmpeg gives them, straight into their place."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch

from videodataset.convert import finish, to_gray16, to_rgb, to_yuv
from videodataset.decode.cpu import cpu_engine
from videodataset.decode.engine import DecodeRun, FrameSlot
from videodataset.decode.reading import Reading
from videodataset.errors import UnsupportedVideoError
from videodataset.fetch.ask import Ask, Output, first_error
from videodataset.fetch.base import Fetch
from videodataset.fetch.work import work_of
from videodataset.index.model import StreamInfo
from videodataset.plan import plan_runs
from videodataset.videos import Video


class ConvertingSlot:
    """A picture's places, (ask, row of it); each different output is made once."""

    def __init__(self, video: Video) -> None:
        self._video = video
        self._places: list[tuple[Ask, int]] = []

    def add(self, ask: Ask, row: int) -> None:
        """Want the picture in one more place."""
        self._places.append((ask, row))

    def fill(self, frame: Any) -> None:
        """See `FrameSlot.fill`."""
        made: list[tuple[Output, torch.Tensor]] = []
        for ask, row in self._places:
            self._check_size(frame, ask)
            out = None if ask.out is None else ask.out[row]
            pixels = next((pixels for output, pixels in made if output == ask.output), None)
            if pixels is None:
                pixels = _convert(frame, ask.output, out, self._video)
                made.append((ask.output, pixels))
            elif out is not None:
                out.copy_(pixels)
            if ask.out is None:
                ask.out = (pixels.clone() if len(made) < len(self._places) else pixels)[None]

    def _check_size(self, frame: Any, ask: Ask) -> None:
        info: StreamInfo = self._video.index.info
        if ask.out is not None and (frame.width, frame.height) != (info.width, info.height):
            raise UnsupportedVideoError(
                f"{self._video.name}: the picture size changes inside the stream, from {info.width}x{info.height} to "
                f"{frame.width}x{frame.height}; one batch holds one size. Ask for frames of one size at a time."
            )


def fetch_here(video: Video, frame: int, output: Output) -> torch.Tensor:
    """Fetch one frame on this thread: what `CpuFetch` does, without the bookkeeping for many.

    Raises:
        VideoDatasetError: as `Fetch.wait`.
    """
    picture = video.index.rows.presentation[frame]
    slot = _OneFrame(video, output)
    reading = Reading(video.storage, video.index, {picture: slot}, lambda: False)
    errors = reading.execute(plan_runs(video.index, (picture,)), video.reads_on((frame,)))
    if errors:
        raise errors[picture]
    assert slot.pixels is not None
    return slot.pixels


class _OneFrame:
    """A picture in memory of its own, of the size that it comes in."""

    def __init__(self, video: Video, output: Output) -> None:
        self._video, self._output = video, output
        self.pixels: torch.Tensor | None = None

    def fill(self, frame: Any) -> None:
        """See `FrameSlot.fill`."""
        self.pixels = _convert(frame, self._output, None, self._video)


class CpuFetch(Fetch):
    """Frames on their way to host memory; see `Fetch`."""

    def __init__(self, asks: Sequence[Ask], threads: int) -> None:
        self._asks = asks
        by_video: dict[int, tuple[Video, list[int], dict[int, ConvertingSlot]]] = {}
        for ask in asks:
            known = by_video.get(id(ask.video.index))
            if known is None:
                known = by_video[id(ask.video.index)] = (ask.video, [], {})
            video, frames, slots = known
            frames += ask.frames.tolist()
            for row, picture in enumerate(ask.pictures()):
                if picture not in slots:
                    slots[picture] = ConvertingSlot(video)
                slots[picture].add(ask, ask.first + row)
        runs: list[DecodeRun[FrameSlot]] = []
        for video, frames, slots in by_video.values():
            planned = plan_runs(video.index, slots)
            # Runs of one video at a time would take the decoder that stands ready from one another.
            reads_on = video.reads_on(frames) and (not threads or len(planned) == 1)
            runs += [
                DecodeRun(video.storage, video.index, run, {p: slots[p] for p in run.asked}, reads_on)
                for run in planned
            ]
        self.work = work_of(runs)
        self._indexes = [id(run.index) for run in runs]
        self._ticket = cpu_engine(threads).submit(runs)

    def errors(self) -> list[Exception | None]:
        """See `Fetch.errors`."""
        failed = {
            (index, picture): error
            for index, errors in zip(self._indexes, self._ticket.wait(), strict=True)
            for picture, error in errors.items()
        }
        if not failed:
            return [None] * len(self._asks)
        return [first_error(ask, failed) for ask in self._asks]

    def cancel(self) -> None:
        """See `Fetch.cancel`."""
        self._ticket.cancel()


def _convert(frame: Any, output: Output, out: torch.Tensor | None, video: Video) -> torch.Tensor:
    info, transform = video.index.info, output.transform
    channels_first = transform.dimension_order == "NCHW"
    if output.kind != "rgb":
        to_samples = to_yuv if output.kind == "yuv" else to_gray16
        samples = torch.from_numpy(to_samples(frame, info, video.name, crop=transform.crop))
        laid_out = samples if channels_first else samples.movedim(0, -1)
        return laid_out if out is None else out.copy_(laid_out)
    if not output.is_plain:
        pixels = torch.from_numpy(to_rgb(frame, info, video.name, crop=transform.crop))
        return finish(pixels[None], transform, None if out is None else out[None])[0]
    # Turned round by numpy: an operation of PyTorch costs tens of microseconds after a decoder has filled the caches.
    if out is None:
        made = to_rgb(frame, info, video.name, crop=transform.crop)
        return torch.from_numpy(made.transpose(2, 0, 1) if channels_first else made)
    memory = out.numpy()
    to_rgb(frame, info, video.name, memory.transpose(1, 2, 0) if channels_first else memory, transform.crop)
    return out
