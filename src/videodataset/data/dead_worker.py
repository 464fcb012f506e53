"""A worker process that dies is named, with the samples that it held, whatever torch made of it."""

from __future__ import annotations

import re
import signal
import threading
import time
from collections.abc import Iterator
from types import FrameType
from typing import Any
from weakref import ReferenceType, ref

from videodataset.data.batch_order import Held

#: What reading from a process raises that dies meanwhile. torch asks for its exit only when no batch comes at all.
_BROKEN_OFF = (EOFError, ConnectionError, FileNotFoundError)
#: Its sockets close before its exit can be seen.
_SECONDS_TO_DIE = 1.0
_MOST_NAMED = 64

#: By process: what its loader's workers hold, and which of them it is.
_held: dict[int, tuple[ReferenceType[Held], int]] = {}


def naming_dead_workers(batches: Iterator[Any], held: Held) -> Iterator[Any]:
    """Return an iterator over the batches of torch's iterator, whose workers have begun.

    Args:
        batches: torch's iterator.
        held: what the workers have; batches that come are taken off.

    Raises:
        RuntimeError: a worker died. While the loop works on a batch, torch raises it wherever the main thread is.
    """
    for pid in [pid for pid, (of_loader, _) in _held.items() if of_loader() is None]:
        del _held[pid]
    workers = getattr(batches, "_workers", ())  # torch's iterator has no public way to its processes
    _held.update({process.pid: (ref(held), k) for k, process in enumerate(workers)})
    if workers:
        _add_to_handler()
    return _named(batches, held, workers)


def _named(batches: Iterator[Any], held: Held, workers: Any) -> Iterator[Any]:
    try:
        for batch in batches:
            held.take_back()
            yield batch
    except (*_BROKEN_OFF, RuntimeError) as error:
        if isinstance(error, RuntimeError):
            if not _pids(str(error)):
                raise
            raise RuntimeError(_with_samples(str(error))) from error
        # Meanwhile the handler of the signal may raise from in here: that ends the wait too.
        deadline = time.monotonic() + _SECONDS_TO_DIE
        while not (dead := [each for each in workers if each.exitcode]) and time.monotonic() < deadline:
            time.sleep(0.01)
        if not dead:
            raise  # the data set's own
        message = f"DataLoader worker (pid(s) {', '.join(str(each.pid) for each in dead)}) exited unexpectedly"
        raise RuntimeError(_with_samples(message)) from error


def _add_to_handler() -> None:
    """Let what torch's handler of a worker's end raises tell what it held."""
    before = signal.getsignal(signal.SIGCHLD)
    if threading.current_thread() is not threading.main_thread() or isinstance(before, _Handler):
        return
    if callable(before):
        signal.signal(signal.SIGCHLD, _Handler(before))


class _Handler:
    def __init__(self, before: Any) -> None:
        self._before = before

    def __call__(self, number: int, frame: FrameType | None) -> None:
        try:
            self._before(number, frame)
        except RuntimeError as error:
            if not _pids(str(error)):
                raise
            raise RuntimeError(_with_samples(str(error))) from None


def _pids(message: str) -> list[int]:
    """The processes that torch's message says have died."""
    found = re.search(r"DataLoader worker \(pid(?:\(s\))? ([\d, ]+)\)", message)
    return [int(pid) for pid in found[1].split(", ")] if found else []


def _with_samples(message: str) -> str:
    """Add what the workers named in a message held, unless that is in it."""
    samples: list[Any] = []
    for pid in _pids(message):
        of_loader, worker = _held.get(pid, (lambda: None, 0))
        held = of_loader()
        for indices in held.by(worker) if held is not None else []:
            samples += indices if isinstance(indices, list) else [indices]
    told = "It held the samples "
    if not samples or told in message:
        return message
    more = f" and {len(samples) - _MOST_NAMED} more" if len(samples) > _MOST_NAMED else ""
    return f"{message.strip().rstrip('.')}. {told}{', '.join(map(str, samples[:_MOST_NAMED]))}{more}."
