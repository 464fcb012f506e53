"""Batches decoded ahead of the loop that takes them."""

from __future__ import annotations

import atexit
from collections import deque
from collections.abc import Callable, Generator, Iterator
from typing import Any, NamedTuple
from weakref import WeakSet

import torch

from videodataset.data.budget import Budget
from videodataset.data.resolve import BatchOnItsWay, DecodedBatch

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


def ahead(
    batches: Iterator[Any],
    look_up: Callable[[Any], BatchOnItsWay],
    device: torch.device,
    count: int | None,
    budget: Budget,
    snapshot: Callable[[], Any] | None,
) -> Generator[Delivery, None, None]:
    """Give decoded batches.

    Args:
        batches: with references.
        look_up: makes one ready to be decoded.
        device: where the frames go.
        count: how many batches are begun ahead; None: see `DataLoader`.
        budget: memory for batches from when they are begun to when they are handed on.
        snapshot: called behind each batch, before the next one is taken.
    """

    def enough() -> bool:
        if count is not None:
            return len(on_their_way) > count
        frames = sum(batch.frames for batch, _ in on_their_way)
        return len(on_their_way) > _BATCHES_AHEAD and (device.type == "cpu" or frames >= _GPU_FRAMES_AHEAD)

    def full(size_bytes: int) -> bool:
        taken = sum(batch.size_bytes for batch, _ in on_their_way)
        return bool(on_their_way) and taken + size_bytes > budget.size_bytes

    def decoded() -> Delivery:
        batch, state = on_their_way.popleft()
        return Delivery(batch.wait(), state, len(on_their_way))

    on_their_way: deque[tuple[BatchOnItsWay, Any]] = deque()
    failure: Exception | None = None
    try:
        while True:
            try:
                batch = look_up(next(batches))
                state = None if snapshot is None else snapshot()
                budget.require_room_for(batch)
            except StopIteration:
                break
            except Exception as error:  # of the user's code or of the plan: told when the batches before are out
                failure = error
                break
            # In the order of delivery, so that what waits for memory waits only for batches that come before it.
            while full(batch.size_bytes):
                yield decoded()
            try:
                on_their_way.append((batch.start(), state))
            except Exception as error:
                failure = error
                break
            if enough():
                yield decoded()
        while on_their_way:
            yield decoded()
        if failure is not None:
            raise failure
    finally:
        for each, _ in on_their_way:
            each.cancel()
