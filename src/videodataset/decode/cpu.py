"""The CPU engine: runs to FFmpeg frames.

run ──▶ session (one context) ──▶ asked pictures, each as soon as all it is built from has come out
the next run goes on in the same session where it begins at or before the next picture, else it gets a new one
after the last run: drained (random access), or fed on until the asked pictures are out and parked (reading on)
"""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any

from videodataset.decode.packets import read_pictures
from videodataset.decode.parked import parked
from videodataset.decode.session import Session
from videodataset.errors import DamagedVideoError
from videodataset.index.model import VideoIndex
from videodataset.plan import Run
from videodataset.storage import Storage

#: Called with a picture number and its `av.VideoFrame`, once per asked picture, in any order, from any thread.
Deliver = Callable[[int, Any], None]

#: Pictures fed past the last asked one before draining: more than any reorder depth (16 in H.264 and HEVC).
_MAX_AHEAD = 20


def decode_runs(
    storage: Storage,
    index: VideoIndex,
    runs: Sequence[Run],
    deliver: Deliver,
    threads: int = 1,
    reads_on: bool = False,
) -> None:
    """Decode runs and hand over every asked picture.

    Args:
        storage: the video's bytes.
        index: the video's index.
        runs: from `plan_runs`.
        deliver: takes each asked picture.
        threads: decode this many runs at a time, each on one thread; 0 = as many as there are cores.
        reads_on: the next call will likely ask for what follows; the decoder then stays where it is.

    Raises:
        DamagedVideoError: an asked picture cannot be decoded without error.
        UnreadableVideoError: the source cannot be read any more.
    """
    threads = min(threads or os.cpu_count() or 1, len(runs))
    if threads <= 1:
        _Reading(storage, index, deliver).execute(runs, reads_on)
        return
    with ThreadPoolExecutor(threads, thread_name_prefix="videodataset-decode") as pool:
        # list() raises the first error; leaving the block waits for the others.
        list(pool.map(lambda run: _Reading(storage, index, deliver).execute([run], reads_on=False), runs))


class _Reading:
    """Runs of one request, one after another."""

    def __init__(self, storage: Storage, index: VideoIndex, deliver: Deliver) -> None:
        self._storage, self._index, self._deliver = storage, index, deliver
        self._session: Session | None = None
        self._waiting: list[int] = []  # asked, not delivered yet

    def execute(self, runs: Sequence[Run], reads_on: bool) -> None:
        if reads_on:
            self._session = parked.take(self._index)
        for run in runs:
            self._execute(run)
        session = self._session
        if session is None:
            return
        if reads_on:
            self._feed_until_out(session)
            if self._waiting:
                self._drain(session)  # at the stream's end what else came out stays parked for the next request
            parked.park(session)
        else:
            self._drain(session)

    def _execute(self, run: Run) -> None:
        session = self._session
        if session is None or run.pictures[0] > session.next or not all(session.can_reach(p) for p in run.asked):
            if session is not None:
                self._drain(session)
            session = self._session = Session(self._storage, self._index, run.pictures[0])
        self._waiting += sorted(run.asked)
        pictures = [picture for picture in run.pictures if picture >= session.next]
        self._hand_over(session)
        for picture, payloads in zip(pictures, read_pictures(self._storage, self._index, pictures), strict=True):
            session.feed(picture, payloads)
            self._hand_over(session)

    def _drain(self, session: Session) -> None:
        """Get what is still asked for out of a session, whose context is given back."""
        if self._waiting:
            session.finish()
            self._hand_over(session)
        else:
            session.close()
        if self._waiting:
            raise DamagedVideoError(
                f"{self._storage.name}: pictures {self._waiting} (in decode order) did not come out of FFmpeg. "
                f"Ask for other frames, or fetch the file again."
            )

    def _feed_until_out(self, session: Session) -> None:
        """Feed what follows until every asked picture is out, or the stream or patience ends."""
        for _ in range(_MAX_AHEAD):
            if not self._waiting or session.next >= len(self._index.flags):
                return
            session.feed(session.next, read_pictures(self._storage, self._index, [session.next])[0])
            self._hand_over(session)

    def _hand_over(self, session: Session) -> None:
        waiting = []
        for picture in self._waiting:
            frame = session.pop(picture)
            if frame is None:
                waiting.append(picture)
            else:
                self._deliver(picture, frame)
        self._waiting = waiting
