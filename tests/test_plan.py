"""The plan: every asked frame once, nothing needed left out, and the same bits as a full decode."""

from __future__ import annotations

from fractions import Fraction
from itertools import pairwise
from pathlib import Path
from typing import Any

import av
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from clips import CLIPS, ClipStore
from engines import decode_planes
from reference import planes_of
from videodataset.index import Orientation, VideoIndex, build_index
from videodataset.index.model import DISPOSABLE, LEADING, SYNC, StreamInfo
from videodataset.index.order import presentation_order, start_pictures, sync_before
from videodataset.plan import Run, may_be_built_on, plan_runs
from videodataset.storage import open_storage

INFO = StreamInfo(
    "test", 0, "h264", "avc1", Fraction(1, 25), 16, 16, "yuv420p", 2, 0, 2, 2, None, Orientation(), None,
    None, None, None, None, None, b"", 4, True,
)  # fmt: skip


def index_of(flags: list[int], layers: list[int], pts: list[int]) -> VideoIndex:
    """An index with one packet per picture."""
    count, column = len(flags), np.array(flags, np.uint8)
    rank = np.array(pts, np.int64)
    numbers = np.arange(count, dtype=np.int64)
    return VideoIndex(
        info=INFO,
        packet_offset=numbers,
        packet_size=np.ones(count, np.int64),
        packet_crc=np.empty(0, np.uint32),
        packet_dts=np.empty(0, np.int64),
        first_packet=np.arange(count + 1, dtype=np.int64),
        pts=rank,
        duration=np.ones(count, np.int64),
        flags=column,
        layer=np.array(layers, np.uint8),
        start=start_pictures(column),
        parameter_sets=np.zeros(count, np.int32),
        parameter_set_table=((),),
        presentation=presentation_order(column, rank),
    )


@st.composite
def streams(draw: st.DrawFn) -> VideoIndex:
    """Streams of any shape: sync pictures, leading ones right after them, layers, disposable pictures."""
    flags, layers, pts = [], [], []
    for gop in range(draw(st.integers(1, 4))):
        for place in range(draw(st.integers(1, 9))):
            leading = gop > 0 and place > 0 and flags[-1] & (SYNC | LEADING) and draw(st.booleans())
            flags.append(SYNC if place == 0 else DISPOSABLE * draw(st.booleans()) | LEADING * bool(leading))
            layers.append(0 if place == 0 else draw(st.integers(0, 2)))
            pts.append(len(pts))
    return index_of(flags, layers, draw(st.permutations(pts)))


@given(data=st.data(), index=streams())
@settings(max_examples=300, deadline=None)
def test_asked_pictures_are_delivered_once_and_nothing_needed_is_left_out(
    data: st.DataObject, index: VideoIndex
) -> None:
    asked = data.draw(st.lists(st.sampled_from(index.presentation.tolist()), min_size=1, max_size=12))
    runs = plan_runs(index, asked)
    delivered = [picture for run in runs for picture in run.asked]
    assert sorted(delivered) == sorted(set(asked))
    for run in runs:
        assert list(run.pictures) == sorted(set(run.pictures)), "decode order, each once"
        assert index.flags[run.pictures[0]] & SYNC
        assert run.asked <= set(run.pictures)
        assert run.pictures[-1] == max(run.asked)
        for picture in run.asked:
            assert run.pictures[0] <= index.start[picture]
            assert needed_for(index, picture) <= set(run.pictures)
    spans = [(run.pictures[0], run.pictures[-1]) for run in runs]
    assert all(before[1] < after[0] for before, after in pairwise(spans)), "no run decodes another's"


def needed_for(index: VideoIndex, asked: int) -> set[int]:
    """What one picture may refer to, by the standards: lower layers, and its own unless disposable."""
    layer = index.layer[asked]
    start = int(index.start[asked])
    return {
        picture
        for picture in range(start, asked)
        if picture == start
        or (
            index.start[picture] >= start
            and (
                index.layer[picture] < layer
                or (index.layer[picture] == layer and not index.flags[picture] & DISPOSABLE)
            )
        )
    }


def test_nothing_asked_is_nothing_to_do() -> None:
    assert plan_runs(index_of([SYNC, 0], [0, 0], [0, 1]), []) == []


def test_disposable_pictures_are_left_out() -> None:
    index = index_of([SYNC, 0, DISPOSABLE, DISPOSABLE, 0], [0] * 5, [0, 3, 1, 2, 4])
    assert plan_runs(index, [4]) == [Run((0, 1, 4), frozenset([4]), 5)]
    assert plan_runs(index, [2]) == [Run((0, 1, 2), frozenset([2]), 3)]


def test_a_disposable_picture_is_kept_for_a_higher_layer() -> None:
    index = index_of([SYNC, DISPOSABLE, DISPOSABLE], [0, 1, 2], [0, 1, 2])
    assert plan_runs(index, [2])[0].pictures == (0, 1, 2)
    assert plan_runs(index_of([SYNC, DISPOSABLE, DISPOSABLE], [0, 2, 1], [0, 1, 2]), [2])[0].pictures == (0, 2)


def test_leading_pictures_start_one_sync_picture_earlier() -> None:
    index = index_of([SYNC, 0, SYNC, LEADING | DISPOSABLE, 0], [0] * 5, [0, 1, 4, 3, 5])
    assert plan_runs(index, [3])[0].pictures == (0, 1, 2, 3)
    assert plan_runs(index, [4])[0].pictures == (2, 4)
    assert plan_runs(index, [4, 3]) == [Run((0, 1, 2, 3, 4), frozenset([3, 4]), 5)]


def test_sync_before() -> None:
    assert sync_before(np.array([SYNC, 0, 0, SYNC, 0], np.uint8)).tolist() == [0, 0, 0, 3, 3]


@given(data=st.data(), index=streams())
@settings(max_examples=200, deadline=None)
def test_what_is_fed_for_a_picture_is_what_damage_spreads_from(data: st.DataObject, index: VideoIndex) -> None:
    """Apart from the sync picture, which is always fed, and leading ones of that picture, to which nothing refers."""
    picture = data.draw(st.sampled_from(index.presentation.tolist()))
    (run,) = plan_runs(index, [picture])
    for earlier in range(run.pictures[0] + 1, picture):
        if not index.flags[earlier] & LEADING:
            assert (earlier in run.pictures) == may_be_built_on(index, picture, earlier)


def full_decode(path: Path, stream_index: int) -> dict[int, list[np.ndarray[Any, Any]]]:
    """Every picture by its number in decode order, from one decoder fed with every packet."""
    with av.open(str(path)) as container:
        stream = container.streams[stream_index]
        context: Any = stream.codec_context
        context.thread_count = 1
        if context.name in ("h264", "hevc"):
            context.options = {"strict": "1"}
        out = {}
        packets = [packet for packet in container.demux(stream) if packet.size]
        for number, packet in enumerate(packets):
            packet.pts = number
            out.update({frame.pts: planes_of(frame) for frame in context.decode(packet)})
        out.update({frame.pts: planes_of(frame) for frame in context.decode(None)})
        return out


@pytest.mark.parametrize("name", CLIPS)
def test_leaving_pictures_out_changes_no_bit(name: str, clip: ClipStore) -> None:
    path = clip(name)
    index = build_index(path)
    if len(index.flags) != len(index.packet_size):
        pytest.skip("a picture of two packets has no packet number of its own in the full decode")
    want = full_decode(path, index.info.stream_index)
    left_out = 0
    for picture in index.presentation.tolist():
        runs = plan_runs(index, [picture])
        left_out += sum(run.span - len(run.pictures) for run in runs)
        got = decode_planes(open_storage(path), index, runs)
        assert list(got) == [picture]
        assert all(np.array_equal(a, b) for a, b in zip(got[picture], want[picture], strict=True)), f"picture {picture}"
    if any(index.flags & DISPOSABLE) and len(index) > 2 and not all(index.flags & (DISPOSABLE | SYNC)):
        assert left_out > 0
