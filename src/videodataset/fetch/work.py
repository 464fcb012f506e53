"""What a fetch costs, counted from its plan."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, NamedTuple

from videodataset.decode.engine import DecodeRun


class Work(NamedTuple):
    """What a decoder is given; sums of several add up with `+`.

    Attributes:
        pictures: pictures fed to a decoder.
        skipped: pictures between those that were left out, since nothing asked for is built on them.
        bytes_read: bytes of the packets of the pictures fed.
        fallbacks: asked pictures that a GPU was to decode and the CPU did.
        cache_hits: frames that a cache held.
    """

    pictures: int = 0
    skipped: int = 0
    bytes_read: int = 0
    fallbacks: int = 0
    cache_hits: int = 0

    def __add__(self, other: Any) -> Work:
        return Work(*(mine + its for mine, its in zip(self, other, strict=True)))


def work_of(runs: Iterable[DecodeRun[Any]]) -> Work:
    """Return what runs cost."""
    pictures = span = size = 0
    for each in runs:
        run, rows = each.run, each.index.rows
        fed = len(run.pictures)
        pictures += fed
        span += run.span
        if fed == run.span:
            first, last = run.pictures[0], run.pictures[-1]
            size += rows.bytes_before[rows.first_packet[last + 1]] - rows.bytes_before[rows.first_packet[first]]
        else:
            size += sum(
                rows.bytes_before[rows.first_packet[p + 1]] - rows.bytes_before[rows.first_packet[p]]
                for p in run.pictures
            )
    return Work(pictures, span - pictures, size)
