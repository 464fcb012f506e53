"""A worker process that dies while it hands over a batch is named, whatever torch made of it."""

from __future__ import annotations

import time
from collections.abc import Iterator
from typing import Any

#: What reading from a process raises that dies meanwhile. torch asks for its exit only when no batch comes at all.
_BROKEN_OFF = (EOFError, ConnectionError, FileNotFoundError)
#: Its sockets close before its exit can be seen.
_SECONDS_TO_DIE = 1.0


def naming_dead_workers(batches: Iterator[Any]) -> Iterator[Any]:
    """Give the batches of torch's iterator.

    Raises:
        RuntimeError: a worker died, in the words that torch has for it.
    """
    try:
        yield from batches
    except _BROKEN_OFF as error:
        # Meanwhile torch's own handler of the signal may raise the same from in here: that ends the wait too.
        deadline = time.monotonic() + _SECONDS_TO_DIE
        while not (dead := _dead(batches)) and time.monotonic() < deadline:
            time.sleep(0.01)
        if not dead:
            raise  # the data set's own
        names = ", ".join(f"pid {each.pid}: exit code {each.exitcode}" for each in dead)
        raise RuntimeError(f"a DataLoader worker exited unexpectedly ({names})") from error


def _dead(batches: Any) -> list[Any]:
    workers = getattr(batches, "_workers", ())  # torch's iterator has no public way to its processes
    return [each for each in workers if each.exitcode]
