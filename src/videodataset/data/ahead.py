"""Batches decoded ahead of the loop that takes them."""

from __future__ import annotations

import atexit
from collections import deque
from collections.abc import Callable, Generator, Iterator, Sequence
from typing import Any, NamedTuple
from weakref import WeakSet

import torch

from videodataset.data.budget import Budget
from videodataset.data.resolve import DecodedBatch, PlannedBatches

_BATCHES_AHEAD = 2
#: The sessions of an engine hold a few pictures each before they wait for one, and need runs queued beside these.
_GPU_FRAMES_AHEAD = 384

#: Iterators left half-way are closed while the interpreter still works: at its very end torch cannot.
_unfinished: WeakSet[Generator[Any, None, None]] = WeakSet()


def close_at_exit(iterator: Generator[Any, None, None]) -> None:
    """Close an iterator at exit, should it live so long."""
    _unfinished.add(iterator)


def _close_unfinished() -> None:
    for each in list(_unfinished):
        each.close()


atexit.register(_close_unfinished)


class Delivery(NamedTuple):
    """A decoded batch as it is handed on.

    Attributes:
        decoded: the batch.
        state: what `snapshot` said as its references were taken.
        ahead: how many batches are begun behind it.
    """

    decoded: DecodedBatch
    state: Any
    ahead: int


def as_they_come(batches: Iterator[DecodedBatch]) -> Generator[Delivery, None, None]:
    """Give batches that workers have decoded."""
    for batch in batches:
        yield Delivery(batch, None, 0)


class Ahead:
    """Decodes batches ahead of the loop that takes them.

    Args:
        batches: with references.
        look_up: makes several ready to be decoded in one plan.
        device: where the frames go.
        count: how many batches are begun ahead; None: see `DataLoader`.
        together: how many batches are planned together, and how many of them are left of those that come first. Several
            are begun when those before have been decoded.
        budget: memory for batches from when they are begun to when they are handed on.
        snapshot: called behind each batch, before the next one is taken.
    """

    def __init__(
        self,
        batches: Iterator[Any],
        look_up: Callable[[Sequence[Any]], PlannedBatches],
        device: torch.device,
        *,
        count: int | None,
        together: tuple[int, int],
        budget: Budget,
        snapshot: Callable[[], Any] | None,
    ) -> None:
        self._batches, self._look_up, self._snapshot = batches, look_up, snapshot
        self._count, self._on_gpu, self._budget = count, device.type == "cuda", budget
        self._together, self._wanted = together
        self._taken: list[tuple[Any, Any]] = []  # batches with references, and the states behind them
        self._begun: deque[tuple[PlannedBatches, list[Any]]] = deque()
        self._failure: Exception | None = None
        self._ended = False

    def __iter__(self) -> Generator[Delivery, None, None]:
        try:
            while not self._ended or self._taken:
                while len(self._taken) < self._wanted and not self._ended:
                    self._take()
                if self._taken:
                    yield from self._begin()
                while self._enough():
                    yield from self._decoded()
            while self._begun:
                yield from self._decoded()
            if self._failure is not None:
                raise self._failure
        finally:
            for planned, _ in self._begun:
                planned.cancel()

    def _take(self) -> None:
        """Take a batch with references; an error of the user's code is told when the batches before are out."""
        try:
            batch = next(self._batches)
            self._taken.append((batch, None if self._snapshot is None else self._snapshot()))
        except StopIteration:
            self._ended = True
        except Exception as error:
            self._ended, self._failure = True, error

    def _begin(self) -> Generator[Delivery, None, None]:
        """Begin to decode what has been taken, when there is room for it."""
        batches, states = zip(*self._taken, strict=True)
        self._taken, self._wanted = [], self._together
        try:
            planned = self._look_up(batches)
            self._budget.require_room_for(planned, self._together)
        except Exception as error:
            self._ended, self._failure = True, error
            return
        # In the order of delivery, so that what waits for memory waits only for batches that come before it.
        while self._begun and self._size_bytes() + planned.size_bytes > self._budget.size_bytes:
            yield from self._decoded()
        try:
            self._begun.append((planned.start(), list(states)))
        except Exception as error:
            self._ended, self._failure = True, error

    def _decoded(self) -> Generator[Delivery, None, None]:
        planned, states = self._begun[0]
        decoded = deque(planned.wait())  # interrupted, it is among those that are cancelled
        self._begun.popleft()
        del planned  # so that what the loop is done with is not held by this
        behind = sum(len(others) for others, _ in self._begun)
        for state in states:
            yield Delivery(decoded.popleft(), state, len(decoded) + behind)
            if self._together > 1 and len(self._taken) < self._wanted and not self._ended:
                self._take()  # one by one, and not all of them when the last batch has been handed on

    def _enough(self) -> bool:
        if not self._begun:
            return False
        if self._together > 1:
            return len(self._begun) > 1
        if self._count is not None:
            return len(self._begun) > self._count
        frames = sum(planned.frames for planned, _ in self._begun)
        return len(self._begun) > _BATCHES_AHEAD and (not self._on_gpu or frames >= _GPU_FRAMES_AHEAD)

    def _size_bytes(self) -> int:
        return sum(planned.size_bytes for planned, _ in self._begun)
