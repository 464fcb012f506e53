"""The cost of a frame: equal to what the plan decodes, frame by frame, and to closed formulas."""

from __future__ import annotations

import time

import numpy as np
import pytest
from hypothesis import given, settings

from clips import CLIPS, ClipStore
from test_plan import index_of, streams
from videodataset.frame_cost import picture_sizes_bytes, sums_of_all, sums_of_needed
from videodataset.index import VideoIndex, build_index
from videodataset.index.model import DISPOSABLE, LEADING, SYNC
from videodataset.plan import plan_runs


def assert_as_planned(index: VideoIndex, values: np.ndarray) -> None:
    """Compare with one plan per frame."""
    needed, everything = [], []
    for picture in index.presentation.tolist():
        (run,) = plan_runs(index, [picture])
        needed.append(sum(int(values[p]) for p in run.pictures))
        everything.append(int(values[run.pictures[0] : run.pictures[0] + run.span].sum()))
    assert sums_of_needed(index, values).tolist() == needed
    assert sums_of_all(index, values).tolist() == everything


@given(index=streams())
@settings(max_examples=300, deadline=None)
def test_any_stream_costs_what_the_plan_decodes(index: VideoIndex) -> None:
    assert_as_planned(index, np.ones(len(index.flags), np.int64))
    assert_as_planned(index, 1 << np.arange(len(index.flags)))  # every set of pictures has a sum of its own


@pytest.mark.parametrize("name", CLIPS)
def test_clip_costs_what_the_plan_decodes(name: str, clip: ClipStore) -> None:
    index = build_index(clip(name))
    assert_as_planned(index, np.ones(len(index.flags), np.int64))
    sizes = [
        int(index.packet_size[a:b].sum()) for a, b in zip(index.first_packet, index.first_packet[1:], strict=False)
    ]
    assert picture_sizes_bytes(index).tolist() == sizes
    assert_as_planned(index, np.array(sizes))


@pytest.mark.parametrize("gop", [1, 2, 8, 30])
def test_groups_without_b(gop: int) -> None:
    index = index_of(([SYNC] + [0] * (gop - 1)) * 5, [0] * 5 * gop, list(range(5 * gop)))
    ones = np.ones(5 * gop, np.int64)
    assert sums_of_all(index, ones).mean() == sums_of_needed(index, ones).mean() == (gop + 1) / 2


def test_leading_pictures_pay_for_the_group_before() -> None:
    # I P B B | I l l P: the first l needs I P and the second I; its own neighbour l is disposable.
    flags = [SYNC, 0, DISPOSABLE, DISPOSABLE, SYNC, LEADING | DISPOSABLE, LEADING | DISPOSABLE, 0]
    index = index_of(flags, [0] * 8, [0, 3, 1, 2, 6, 4, 5, 7])
    ones = np.ones(8, np.int64)
    assert index.presentation.tolist() == [0, 2, 3, 1, 5, 6, 4, 7]
    assert sums_of_needed(index, ones).tolist() == [1, 3, 3, 2, 4, 4, 1, 2]
    assert sums_of_all(index, ones).tolist() == [1, 3, 4, 2, 6, 7, 1, 4]


@pytest.mark.parametrize("gop", [250, 100_000])
def test_long_groups_are_fast(gop: int) -> None:
    count = 100_000
    flags = [SYNC if k % gop == 0 else DISPOSABLE * (k % 3 != 0) for k in range(count)]
    index = index_of(flags, [k % 4 if k % gop else 0 for k in range(count)], list(range(count)))
    ones = np.ones(count, np.int64)
    started = time.perf_counter()
    needed, everything = sums_of_needed(index, ones), sums_of_all(index, ones)
    assert time.perf_counter() - started < 1
    assert everything.mean() == (gop + 1) / 2
    assert (needed <= everything).all()
