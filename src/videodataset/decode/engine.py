"""The contract of a decode engine: runs and slots in, pictures out.

    submit(runs) ──▶ Ticket ──▶ wait() ──▶ per run: which asked pictures failed, and why

A run names its source and index, the pictures to feed, and a slot for each asked picture. Slots belong to the caller.
The engine fills them in any order and from any thread; until `wait` has returned, cancelled or not, it may write to
them, and never afterwards. A failure is that of a picture, of the run it is in at most, and never ends the engine.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Generic, Protocol, TypeVar

from videodataset.index.model import VideoIndex
from videodataset.plan import Run
from videodataset.storage import Storage


class FrameSlot(Protocol):
    """Where the CPU engine puts a picture: anything that takes an FFmpeg frame."""

    def fill(self, frame: Any) -> None:
        """Take the picture out of an `av.VideoFrame`, which is the engine's again afterwards.

        Raises:
            VideoDatasetError: the slot cannot hold this picture; that becomes the picture's error.
        """


S = TypeVar("S")

#: Asked pictures of a run that failed, and why; empty where all is well.
RunErrors = dict[int, Exception]


@dataclass(slots=True)
class DecodeRun(Generic[S]):
    """One run to decode.

    Attributes:
        storage: the video's bytes.
        index: the video's index.
        run: the pictures to feed and those asked for, from `plan_runs`.
        slots: a slot for each asked picture.
        reads_on: the next request likely asks for what follows; the engine may keep its decoder where it is.
    """

    storage: Storage
    index: VideoIndex
    run: Run
    slots: Mapping[int, S]
    reads_on: bool = False


class Ticket(Protocol):
    """Runs that were submitted together."""

    @property
    def done(self) -> bool:
        """Whether `wait` would return at once."""

    def wait(self, timeout_s: float | None = None) -> list[RunErrors]:
        """Wait until every run has ended; return the errors of each, in the order of submission.

        Asked pictures of a cancelled run that had not come out fail with `concurrent.futures.CancelledError`.

        Raises:
            TimeoutError: `timeout_s` seconds have passed; the runs go on.
        """

    def cancel(self) -> None:
        """Stop at the next picture. Returns at once; slots may be written to until `wait` returns."""


class Engine(Protocol[S]):
    """Decodes runs. Safe to use from several threads."""

    def submit(self, runs: Sequence[DecodeRun[S]]) -> Ticket:
        """Begin to decode; returns before anything is decoded."""
