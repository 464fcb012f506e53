"""A dead worker is named; errors of the data set stay what they are."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Iterator

import pytest

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
    batches = naming_dead_workers(source)
    try:
        assert next(batches) == 7
        if killed:
            with pytest.raises(RuntimeError, match=rf"worker exited.*pid {source._workers[1].pid}: exit code -9"):
                next(batches)
        else:
            with pytest.raises(type(error)):
                next(batches)
    finally:
        source.end()
