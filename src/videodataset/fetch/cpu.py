"""Pictures to the caller's tensors on the CPU: converted as soon as FFmpeg gives them, straight into their place."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

import torch

from videodataset.convert import finish, to_gray16, to_rgb, to_yuv
from videodataset.decode.cpu import cpu_engine
from videodataset.decode.engine import DecodeRun, FrameSlot
from videodataset.errors import UnsupportedVideoError
from videodataset.fetch.ask import Ask, Output, first_error
from videodataset.index.model import StreamInfo
from videodataset.plan import plan_runs
from videodataset.videos import Video


class ConvertingSlot:
    """A picture's places, (ask, row of it); each different output is made once."""

    def __init__(self, video: Video) -> None:
        self._video = video
        self._places: dict[Output, list[tuple[Ask, int]]] = {}

    def add(self, ask: Ask, row: int) -> None:
        """Want the picture in one more place."""
        self._places.setdefault(ask.output, []).append((ask, row))

    def fill(self, frame: Any) -> None:
        """See `FrameSlot.fill`."""
        for output, places in self._places.items():
            self._check_size(frame, places)
            made: torch.Tensor | None = None
            for ask, row in places:
                if made is None:
                    out = None if ask.out is None else ask.out[row]
                    made = _convert(frame, output, out, self._video)
                    if ask.out is None:
                        ask.out = made[None]
                elif ask.out is None:
                    ask.out = made.clone()[None]
                else:
                    ask.out[row].copy_(made)

    def _check_size(self, frame: Any, places: Iterable[tuple[Ask, int]]) -> None:
        info: StreamInfo = self._video.index.info
        if (frame.width, frame.height) != (info.width, info.height) and any(a.out is not None for a, _ in places):
            raise UnsupportedVideoError(
                f"{self._video.name}: the picture size changes inside the stream, from {info.width}x{info.height} to "
                f"{frame.width}x{frame.height}; one batch holds one size. Ask for frames of one size at a time."
            )


class CpuFetch:
    """Frames on their way to host memory; see `Fetch`."""

    def __init__(self, asks: Sequence[Ask], threads: int) -> None:
        self._asks = asks
        slots: dict[int, dict[int, ConvertingSlot]] = {}
        by_video: dict[int, tuple[Video, list[int]]] = {}
        for ask in asks:
            key = id(ask.video.index)
            of_video = slots.setdefault(key, {})
            for row, picture in enumerate(ask.pictures()):
                slot = of_video.get(picture)
                if slot is None:
                    slot = of_video[picture] = ConvertingSlot(ask.video)
                slot.add(ask, ask.first + row)
            by_video.setdefault(key, (ask.video, []))[1].extend(ask.frames.tolist())
        runs: list[DecodeRun[FrameSlot]] = []
        for key, (video, frames) in by_video.items():
            planned = plan_runs(video.index, slots[key])
            # Runs of one video at a time would take the decoder that stands ready from one another.
            reads_on = video.reads_on(frames) and (not threads or len(planned) == 1)
            runs += [
                DecodeRun(video.storage, video.index, run, {p: slots[key][p] for p in run.asked}, reads_on)
                for run in planned
            ]
        self._indexes = [id(run.index) for run in runs]
        self._ticket = cpu_engine(threads).submit(runs)

    def wait(self) -> None:
        """See `Fetch.wait`."""
        for error in self.errors():
            if error is not None:
                raise error

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
    memory = None if out is None else (out.movedim(0, -1) if channels_first else out).numpy()
    pixels = torch.from_numpy(to_rgb(frame, info, video.name, out=memory, crop=transform.crop))
    return pixels.movedim(-1, 0) if channels_first else pixels
