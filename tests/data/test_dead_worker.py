"""A dead worker is named; errors of the data set stay what they are."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Iterator

import pytest

from videodataset.data.batch_order import Held
from videodataset.data.dead_worker import naming_dead_workers


class Worker:
    """A process as `multiprocessing` describes it: `exitcode` is minus the signal, None while it runs."""

    def __init__(self) -> None:
        self._process = subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE)
        self.pid = self._process.pid

    @property
    def exitcode(self) -> int | None:
        return self._process.poll()

    def end(self) -> None:
        self._process.kill()
        self._process.communicate()


class Batches(Iterator[int]):
    """One batch, and then what reading from a dying process may raise."""

    def __init__(self, error: Exception, kills: bool) -> None:
        self._workers = [Worker(), Worker()]
        self._error, self._kills = error, kills
        self._given = False

    def __next__(self) -> int:
        if not self._given:
            self._given = True
            return 7
        if self._kills:
            os.kill(self._workers[1].pid, signal.SIGKILL)
        raise self._error

    def end(self) -> None:
        for worker in self._workers:
            worker.end()


ERRORS = [
    EOFError(),
    ConnectionResetError(104, "reset"),
    ConnectionRefusedError(111, "refused"),
    FileNotFoundError(2, "no such socket"),
]


@pytest.mark.parametrize("error", ERRORS, ids=lambda error: type(error).__name__)
@pytest.mark.parametrize("killed", [True, False], ids=["killed", "own"])
def test_only_a_dead_worker_is_named(error: Exception, killed: bool) -> None:
    source = Batches(error, killed)
    batches = naming_dead_workers(source, Held(0))
    try:
        assert next(batches) == 7
        if killed:
            with pytest.raises(RuntimeError, match=rf"worker \(pid\(s\) {source._workers[1].pid}\) exited"):
                next(batches)
        else:
            with pytest.raises(type(error)):
                next(batches)
    finally:
        source.end()


def test_what_it_held_is_told() -> None:
    held = Held(2)
    for k in range(5):
        held.give([10 * k, 10 * k + 1])
    source = Batches(RuntimeError(), kills=True)
    pid = source._workers[1].pid
    source._error = RuntimeError(f"DataLoader worker (pid {pid}) is killed by signal: Killed. ")
    batches = naming_dead_workers(source, held)
    try:
        assert next(batches) == 7  # batch 0, of worker 0; the second worker is killed, which has batches 1 and 3
        with pytest.raises(RuntimeError, match=rf"pid {pid}.*Killed\. It held the samples 10, 11, 30, 31\.$"):
            next(batches)
    finally:
        source.end()


def test_errors_of_the_data_set_stay() -> None:
    source = Batches(RuntimeError("Caught RuntimeError in DataLoader worker process 0."), kills=True)
    batches = naming_dead_workers(source, Held(2))
    try:
        next(batches)
        with pytest.raises(RuntimeError, match=r"process 0\.$"):
            next(batches)
    finally:
        source.end()
