"""Which picture each displayed frame is, and from which sync picture each picture is decoded."""

from __future__ import annotations

import numpy as np

from videodataset.index.model import DISCARD, HIDDEN, LEADING, SYNC, Int32Array, Int64Array, UInt8Array


def mark_leading(flags: UInt8Array, rank: Int64Array, open_gop: bool) -> None:
    """Set LEADING on pictures shown before the sync picture they follow in decode order, in place.

    Only where that says something (`open_gop`): H.264 recovery points and MPEG-4. HEVC and MPEG-1/2 mark their own.

    Args:
        flags: per picture, in decode order; uint8.
        rank: per picture, a number that rises in display order; int64.
        open_gop: whether pictures before a sync picture may need what came before it.
    """
    if not open_gop:
        return
    sync = sync_before(flags)
    leading = (rank < rank[sync]) & ((flags & HIDDEN) == 0)
    flags[leading] |= LEADING


def sync_before(flags: UInt8Array) -> Int32Array:
    """Return for each picture the last sync picture at or before it, in decode order."""
    numbers = np.where(flags & SYNC, np.arange(len(flags)), 0)
    last: Int32Array = np.maximum.accumulate(numbers).astype(np.int32)
    return last


def start_pictures(flags: UInt8Array) -> Int32Array:
    """Return for each picture the sync picture its decoding starts from: a leading picture needs the one before.

    -1 for leading pictures of the first sync picture: nothing they could be decoded from is there.
    """
    own = sync_before(flags)
    sync = np.flatnonzero(flags & SYNC)
    previous = np.full(len(flags), -1, np.int32)
    previous[sync[1:]] = sync[:-1]
    start: Int32Array = np.where(flags & LEADING, previous[own], own).astype(np.int32)
    return start


def presentation_order(flags: UInt8Array, rank: Int64Array) -> Int32Array:
    """Return the pictures that are displayed, in display order.

    Hidden and discarded pictures are not, nor are leading pictures of the first sync picture: what they refer to is
    not there.
    """
    numbers = np.arange(len(flags))
    sync = np.flatnonzero(flags & SYNC)
    second_sync = sync[1] if len(sync) > 1 else len(flags)
    lost = (flags & LEADING).astype(bool) & (numbers < second_sync)
    shown: Int64Array = numbers[((flags & (HIDDEN | DISCARD)) == 0) & ~lost]
    displayed: Int32Array = shown[np.argsort(rank[shown], kind="stable")].astype(np.int32)
    return displayed
