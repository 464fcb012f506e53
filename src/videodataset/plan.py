"""Plan: which packets to decode for the asked pictures, and which to leave out. Pure functions over an index; no I/O.

    asked pictures ──▶ grouped by the sync picture they start from ──▶ one Run each: the sync picture, then what is
    needed of the pictures between, in decode order, to the last asked one.

What is needed: picture p of temporal layer j, if it is asked, or if a later asked picture has a layer above j, or has
layer j and p is no disposable picture. In H.264 (nal_ref_idc, ITU-T H.264 7.4.1) there is one layer; in HEVC a
disposable picture is a sub-layer non-reference picture, which only pictures of higher layers may refer to (ITU-T
H.265 7.4.2.2).
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

from videodataset.index.model import DISPOSABLE, LEADING, VideoIndex


class Run(NamedTuple):
    """Pictures to decode from one sync picture, in decode order.

    Attributes:
        pictures: numbers of the pictures to feed; the first is the sync picture.
        asked: numbers of the pictures to deliver; a subset, each once.
        span: how many pictures decoding without skipping would feed.
    """

    pictures: tuple[int, ...]
    asked: frozenset[int]
    span: int


def plan_runs(index: VideoIndex, asked: Iterable[int]) -> list[Run]:
    """Return the runs that deliver every asked picture once, ordered by their sync pictures.

    Args:
        index: the video.
        asked: picture numbers (decode order), in any order, repeats allowed.
    """
    asked = list(asked)
    if len(asked) == 1:  # what most requests are
        return [_run(index, index.rows.start[asked[0]], set(asked))]
    groups: dict[int, list[int]] = {}
    starts = index.rows.start
    for picture in asked:
        groups.setdefault(starts[picture], []).append(picture)
    runs: list[Run] = []
    start, targets = -1, set[int]()
    for sync in sorted(groups):
        if targets and max(targets) >= sync:
            # The run before decodes past this sync picture anyway (leading pictures): its pictures join that run.
            targets |= set(groups[sync])
            continue
        if targets:
            runs.append(_run(index, start, targets))
        start, targets = sync, set(groups[sync])
    if targets:
        runs.append(_run(index, start, targets))
    return runs


def may_be_built_on(index: VideoIndex, picture: int, earlier: int) -> bool:
    """Whether a picture may refer to one before it in decode order, directly or through others."""
    if earlier >= picture:
        return False
    rows = index.rows
    below = rows.layer[earlier] - rows.layer[picture]
    return below < 0 or (below == 0 and not rows.flags[earlier] & DISPOSABLE)


def _run(index: VideoIndex, start: int, asked: set[int]) -> Run:
    stop = max(asked) + 1
    flags, layers, starts = index.rows.flags, index.rows.layer, index.rows.start
    fed: list[int] = []
    highest_asked_later = -1  # layer of the highest asked picture after the one looked at
    for picture in range(stop - 1, start - 1, -1):
        layer = layers[picture]
        if picture in asked:
            fed.append(picture)
            highest_asked_later = max(highest_asked_later, layer)
        elif picture == start:
            fed.append(picture)
        elif flags[picture] & LEADING and starts[picture] < start:
            # Of `start` itself: nothing that can be decoded from `start` refers to it, and what it refers to is not
            # there.
            continue
        elif highest_asked_later > layer or (highest_asked_later == layer and not flags[picture] & DISPOSABLE):
            fed.append(picture)
    fed.reverse()
    return Run(tuple(fed), frozenset(asked), stop - start)
