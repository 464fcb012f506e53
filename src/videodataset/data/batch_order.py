"""The order of batches, as torch's iterators take it from a loader, and who has which of them."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterator
from itertools import islice
from typing import Any


class Held:
    """Batches whose indices workers have got and that have not come back.

    torch gives batch after batch to worker after worker in turn, and takes them back in this order.

    Args:
        workers: how many there are; 0 where that is not so.
    """

    def __init__(self, workers: int) -> None:
        self._workers, self._came_back = workers, 0
        self._indices: deque[Any] = deque()

    def give(self, indices: Any) -> None:
        """Note that the next worker gets these."""
        self._indices.append(indices)

    def take_back(self) -> None:
        """Note that the oldest batch has come back."""
        if self._indices:
            self._indices.popleft()
        self._came_back += 1

    def by(self, worker: int) -> list[Any]:
        """Return the indices that a worker has, batch after batch."""
        if not self._workers:
            return []
        return [each for k, each in enumerate(self._indices, self._came_back) if k % self._workers == worker]


class BatchOrder:
    """What a batch sampler gives, again for every epoch.

    Args:
        inner: gives the indices of one batch after the other.
        begin: called when an epoch begins; says how many batches to leave out, and where those given out are noted.
    """

    def __init__(self, inner: Any, begin: Callable[[], tuple[int, Held]]) -> None:
        self._inner, self._begin = inner, begin

    def __iter__(self) -> Iterator[Any]:
        # At once, and not with the first batch: torch asks for that when the loader has gone on already.
        first, held = self._begin()
        return _noted(islice(iter(self._inner), first, None), held)

    def __len__(self) -> int:
        return len(self._inner)


def _noted(batches: Iterator[Any], held: Held) -> Iterator[Any]:
    for indices in batches:
        held.give(indices)
        yield indices
