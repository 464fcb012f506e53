"""The CPU engine: FFmpeg on this process's threads, each run on one of them."""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from concurrent.futures import wait as wait_for
from functools import cache
from itertools import groupby

from videodataset.decode.engine import DecodeRun, FrameSlot, RunErrors
from videodataset.decode.reading import Reading

_Run = DecodeRun[FrameSlot]


class CpuEngine:
    """Decodes with FFmpeg.

    Args:
        threads: how many runs are decoded at a time. 0 makes no thread: `Ticket.wait` decodes in the thread that calls
            it, which costs no switching and suits a process with one core to itself, such as a loader's worker.
    """

    def __init__(self, threads: int = 0) -> None:
        self._threads = threads
        self._pool: ThreadPoolExecutor | None = None
        self._pid = os.getpid()
        self._lock = threading.Lock()

    def submit(self, runs: Sequence[DecodeRun[FrameSlot]]) -> CpuTicket:
        """See `Engine.submit`."""
        if not self._threads:
            return CpuTicket(_by_video(runs), None)
        return CpuTicket([[run] for run in runs], self._executor().submit)

    def _executor(self) -> ThreadPoolExecutor:
        if self._pid != os.getpid():  # a fork copies the pool's bookkeeping and none of its threads
            self._lock, self._pool, self._pid = threading.Lock(), None, os.getpid()
        with self._lock:
            if self._pool is None:
                self._pool = ThreadPoolExecutor(self._threads, thread_name_prefix="videodataset-decode")
            return self._pool


class CpuTicket:
    """Runs of one submission; see `Ticket`."""

    def __init__(self, jobs: Iterable[Sequence[_Run]], start: Callable[..., Future[list[RunErrors]]] | None) -> None:
        self._cancelled = False
        self._jobs = list(jobs)
        self._errors: list[RunErrors] | None = None
        self._futures = [start(self._execute, job) for job in self._jobs] if start else None

    @property
    def done(self) -> bool:
        """See `Ticket.done`."""
        return self._errors is not None or (self._futures is not None and all(f.done() for f in self._futures))

    def wait(self, timeout_s: float | None = None) -> list[RunErrors]:
        """See `Ticket.wait`. An engine without threads decodes here, whatever the timeout."""
        if self._errors is None and self._futures is None:
            self._errors = [errors for job in self._jobs for errors in self._execute(job)]
        elif self._errors is None:
            _, pending = wait_for(self._futures or (), timeout_s)
            if pending:
                raise TimeoutError(f"{len(pending)} of {len(self._jobs)} runs have not ended after {timeout_s} s")
            self._errors = [errors for future in self._futures or () for errors in future.result()]
        self._jobs, self._futures = [], None  # let go of the slots
        return self._errors

    def cancel(self) -> None:
        """See `Ticket.cancel`."""
        self._cancelled = True

    def _execute(self, job: Sequence[_Run]) -> list[RunErrors]:
        first = job[0]
        slots = {picture: slot for run in job for picture, slot in run.slots.items()}
        reading = Reading(first.storage, first.index, slots, lambda: self._cancelled)
        errors = reading.execute([run.run for run in job], any(run.reads_on for run in job))
        return [{picture: errors[picture] for picture in run.run.asked if picture in errors} for run in job]


def _by_video(runs: Sequence[_Run]) -> Iterable[Sequence[_Run]]:
    """Runs of one video that follow one another: they may share a session."""
    return [list(same) for _, same in groupby(runs, key=lambda run: id(run.index))]


@cache
def cpu_engine(threads: int) -> CpuEngine:
    """Return this process's engine with so many threads."""
    return CpuEngine(threads)
