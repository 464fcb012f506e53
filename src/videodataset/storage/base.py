"""The protocol every kind of storage follows."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol


@dataclass(frozen=True, slots=True)
class Identity:
    """What tells one state of a local file from another; a change in any field makes saved indexes stale."""

    size_bytes: int
    mtime_ns: int
    inode: int


class Storage(Protocol):
    """Random access to the bytes of one source. Safe to use from several threads and after a fork."""

    @property
    def name(self) -> str:
        """What messages call this source: the path, or a description of the bytes."""

    @property
    def identity(self) -> Identity | None:
        """What saved indexes are checked against; None when the source has no lasting identity."""

    @property
    def size_bytes(self) -> int:
        """Number of bytes in the source."""

    def is_unchanged(self) -> bool:
        """Whether the source is still as it was when it was opened, as far as that can be told without reading it."""

    def read(self, offset: int, size_bytes: int) -> bytes:
        """Return the bytes at [offset, offset + size_bytes), fewer only where the source ends.

        Raises:
            UnreadableVideoError: the source is gone, or changed since it was opened.
        """


#: Two ranges closer than this are read as one: a call costs more than the bytes between them.
COALESCE_GAP_BYTES = 64 * 1024


def read_ranges(storage: Storage, ranges: Sequence[tuple[int, int]]) -> list[memoryview]:
    """Read (offset, size_bytes) ranges, in any order, with as few calls as sensible.

    Returns one memoryview per range, in the asked order; shorter than asked only where the source ends.
    """
    order = sorted(range(len(ranges)), key=ranges.__getitem__)
    views: list[memoryview] = [memoryview(b"")] * len(ranges)
    at = 0
    while at < len(order):
        start, size_bytes = ranges[order[at]]
        stop, after = start + size_bytes, at + 1
        while after < len(order) and ranges[order[after]][0] <= stop + COALESCE_GAP_BYTES:
            offset, size_bytes = ranges[order[after]]
            stop, after = max(stop, offset + size_bytes), after + 1
        data = memoryview(storage.read(start, stop - start))
        for k in order[at:after]:
            offset, size_bytes = ranges[k]
            views[k] = data[offset - start : offset - start + size_bytes]
        at = after
    return views
