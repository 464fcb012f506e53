"""Runs of one video on one thread, one after another.

run ──▶ session (one context) ──▶ asked pictures, each as soon as all it is built from has come out
the next run goes on in the same session where it begins at or before the next picture, else it gets a new one
after the last run: drained (random access), or fed on until the asked pictures are out and parked (reading on)
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import CancelledError

from videodataset.decode.engine import FrameSlot, RunErrors
from videodataset.decode.packets import read_pictures
from videodataset.decode.parked import parked
from videodataset.decode.session import Session
from videodataset.errors import DamagedVideoError, VideoDatasetError
from videodataset.index.model import VideoIndex
from videodataset.plan import Run
from videodataset.storage import Storage

#: Pictures fed past the last asked one before draining: more than any reorder depth (16 in H.264 and HEVC).
_MAX_AHEAD = 20

#: Pictures are handed over after so many were fed: decoder and conversion throw each other out of the caches
#: (measured in order: 4 to 5 % faster than one by one; 8 are no better).
_TOGETHER = 4

#: Runs are joined up to so many pictures.
_MAX_JOINED = 64


class Reading:
    """Decodes runs of one video into slots.

    Args:
        storage: the video's bytes.
        index: the video's index.
        slots: a slot for each asked picture of all runs.
        cancelled: asked between pictures whether to stop.
    """

    def __init__(
        self, storage: Storage, index: VideoIndex, slots: Mapping[int, FrameSlot], cancelled: Callable[[], bool]
    ) -> None:
        self._storage, self._index, self._slots, self._cancelled = storage, index, slots, cancelled
        self._session: Session | None = None
        self._wanted: set[int] | None = None
        self._waiting: list[int] = []  # asked of the runs so far, not out yet
        self._errors: RunErrors = {}

    def execute(self, runs: Sequence[Run], reads_on: bool) -> RunErrors:
        """Decode the runs into their slots; return the asked pictures that failed, and why."""
        asked = {picture for run in runs for picture in run.asked}
        self._wanted = None if reads_on else asked  # what comes out besides is the next request's
        filled: set[int] = set()
        try:
            if reads_on:
                self._session = parked.take(self._index)
            for run in _joined(runs):
                self._execute(run, filled)
            if self._session is not None:
                self._leave(self._session, reads_on, filled)
        except (VideoDatasetError, CancelledError, MemoryError) as error:
            # Of the source or the codec as a whole: what has come out is good, nothing more will.
            for picture in asked - filled - self._errors.keys():
                self._errors[picture] = error
        return self._errors

    def _execute(self, run: Run, filled: set[int]) -> None:
        session = self._session
        if session is None or run.pictures[0] > session.next or not all(session.can_reach(p) for p in run.asked):
            if session is not None:
                self._drain(session, filled)
            session = self._session = Session(self._storage, self._index, run.pictures[0], self._wanted)
        self._waiting += sorted(run.asked)
        pictures = [picture for picture in run.pictures if picture >= session.next]
        self._hand_over(session, filled)
        packets = read_pictures(self._storage, self._index, pictures)
        for fed, (picture, payloads) in enumerate(zip(pictures, packets, strict=True), 1):
            if self._cancelled():
                raise CancelledError
            session.feed(picture, payloads)
            if fed % _TOGETHER == 0 or fed == len(pictures):
                self._hand_over(session, filled)

    def _leave(self, session: Session, reads_on: bool, filled: set[int]) -> None:
        if not reads_on:
            self._drain(session, filled)
            return
        self._feed_until_out(session, filled)
        if self._waiting:
            self._drain(session, filled)  # at the stream's end what else came out stays parked for the next request
        parked.park(session)

    def _feed_until_out(self, session: Session, filled: set[int]) -> None:
        """Feed what follows until every asked picture is out, or the stream or patience ends."""
        for _ in range(_MAX_AHEAD):
            if not self._waiting or session.next >= len(self._index.flags):
                return
            session.feed(session.next, read_pictures(self._storage, self._index, [session.next])[0])
            self._hand_over(session, filled)

    def _drain(self, session: Session, filled: set[int]) -> None:
        """Get what is still asked for out of a session, whose context is given back."""
        if not self._waiting:
            session.close()
            return
        session.finish()
        self._hand_over(session, filled)
        for picture in self._waiting:
            self._errors[picture] = DamagedVideoError(
                f"{self._storage.name}: picture {picture} (in decode order) did not come out of FFmpeg. "
                f"Ask for other frames, or fetch the file again."
            )
        self._waiting = []

    def _hand_over(self, session: Session, filled: set[int]) -> None:
        for picture in session.settled(self._waiting):
            try:
                frame = session.pop(picture)
                if frame is None:
                    continue
                self._slots[picture].fill(frame)
                filled.add(picture)
            except VideoDatasetError as error:
                self._errors[picture] = error
            self._waiting.remove(picture)


def _joined(runs: Sequence[Run]) -> list[Run]:
    """Make one run of those that leave nothing out and follow one another: they are read and fed in one go."""
    out: list[Run] = []
    for run in runs:
        before = out[-1] if out else None
        if (
            before is not None
            and len(before.pictures) == before.span <= _MAX_JOINED
            and before.pictures[-1] + 1 == run.pictures[0]
        ):
            out[-1] = Run(before.pictures + run.pictures, before.asked | run.asked, before.span + run.span)
        else:
            out.append(run)
    return out
