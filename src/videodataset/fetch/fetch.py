"""Asked frames of any videos, in one go: one plan per video, all runs to the engine together."""

from __future__ import annotations

import os
from collections.abc import Sequence

from torch.utils.data import get_worker_info

from videodataset.decode.cpu import cpu_engine
from videodataset.decode.engine import DecodeRun, FrameSlot, Ticket
from videodataset.fetch.ask import Ask
from videodataset.fetch.cpu import ConvertingSlot
from videodataset.plan import plan_runs
from videodataset.videos import Video


class Fetch:
    """Frames on their way; targets are theirs until `wait` or `errors` has returned."""

    def __init__(self, asks: Sequence[Ask], runs: Sequence[DecodeRun[FrameSlot]], ticket: Ticket) -> None:
        self._asks, self._ticket = asks, ticket
        self._runs = [(run.index, run.run.asked) for run in runs]

    def wait(self) -> None:
        """Return when every target is filled.

        Raises:
            DamagedVideoError: a frame cannot be decoded without error; of several errors, that of the first ask.
            UnreadableVideoError: a source cannot be read any more.
            UnsupportedVideoError: a picture cannot be converted.
        """
        for error in self.errors():
            if error is not None:
                raise error

    def errors(self) -> list[Exception | None]:
        """Wait, and return what went wrong with each ask, None where its target is filled."""
        failed = {
            (id(index), picture): error
            for (index, _), errors in zip(self._runs, self._ticket.wait(), strict=True)
            for picture, error in errors.items()
        }
        if not failed:
            return [None] * len(self._asks)
        return [failed.get((id(ask.video.index), _picture(ask))) for ask in self._asks]

    def cancel(self) -> None:
        """Stop; targets may be written to until `errors` has returned."""
        self._ticket.cancel()


def fetch(asks: Sequence[Ask], threads: int | None = None) -> Fetch:
    """Begin to fetch frames on the CPU.

    Args:
        asks: displayed frames and their targets, in any order; a picture asked for often is decoded once.
        threads: runs decoded at a time; 0 decodes in `Fetch.wait`; None takes `default_threads()`.
    """
    slots: dict[int, dict[int, ConvertingSlot]] = {}
    by_video: dict[int, tuple[Video, list[int]]] = {}
    for ask in asks:
        of_video = slots.setdefault(id(ask.video.index), {})
        slot = of_video.get(picture := _picture(ask))
        if slot is None:
            slot = of_video[picture] = ConvertingSlot(ask.video)
        slot.add(ask.target)
        by_video.setdefault(id(ask.video.index), (ask.video, []))[1].append(ask.frame)
    runs: list[DecodeRun[FrameSlot]] = []
    threads = default_threads() if threads is None else threads
    for key, (video, frames) in by_video.items():
        planned = plan_runs(video.index, slots[key])
        # Runs of one video at a time would take the decoder that stands ready from one another.
        reads_on = video.reads_on(frames) and (not threads or len(planned) == 1)
        runs += [
            DecodeRun(video.storage, video.index, run, {p: slots[key][p] for p in run.asked}, reads_on)
            for run in planned
        ]
    return Fetch(asks, runs, cpu_engine(threads).submit(runs))


def default_threads() -> int:
    """Return 0 in a loader's worker, which has the other workers beside it, else one per core of this process."""
    if get_worker_info() is not None:
        return 0
    try:
        cores = len(os.sched_getaffinity(0))
    except AttributeError:  # not on Linux
        cores = os.cpu_count() or 1
    return cores if cores > 1 else 0


def _picture(ask: Ask) -> int:
    return int(ask.video.index.presentation[ask.frame])
