"""Inspection: facts as PyAV's packets and frames give them, costs as formulas do."""

from __future__ import annotations

import json
import time
from fractions import Fraction
from itertools import pairwise
from pathlib import Path
from statistics import median
from typing import Any

import av
import numpy as np
import pytest
from av.video.frame import PictureType

from clips import CLIPS, ClipStore
from clips.encode import open_output, read_packets
from test_plan import index_of
from videodataset import inspection
from videodataset.errors import NoVideoStreamError, UnreadableVideoError
from videodataset.index.model import DISPOSABLE, SYNC
from videodataset.inspection import VideoReport, inspect_video
from videodataset.plan import plan_runs

B_FRAMES = {  # name -> (B-frames, open GOPs)
    "h264": (True, False),
    "h264_15b": (True, False),
    "h264_g2": (False, False),
    "h264_open_gop": (True, True),
    "h264_open_gop_pyramid": (True, True),
    "hevc": (True, True),  # x265's default
    "hevc_closed_15b": (True, False),
    "hevc_no_b": (False, False),
    "mpeg4_b": (True, True),
    "vp9": (False, False),
    "vp8_hidden": (False, False),
    "av1_g2": (False, False),
    "h264_ts": (True, False),
    "mjpeg": (False, False),
}


@pytest.mark.parametrize("name", B_FRAMES)
def test_groups_and_order(name: str, clip: ClipStore) -> None:
    """Expected: the container's key flags, which are right in these clips, and its times."""
    report = inspect_video(clip(name))
    packets = read_packets(clip(name))
    b_frames, open_gops = B_FRAMES[name]
    keys = [k for k, packet in enumerate(packets) if packet.is_keyframe]
    lengths = [b - a for a, b in pairwise([*keys, len(packets)])]
    gops = report.gops
    assert (gops.sync_points, gops.min, gops.median, gops.max) == (
        len(keys), min(lengths), median(lengths), max(lengths)
    )  # fmt: skip
    assert gops.open == (gops.leading_pictures > 0) == open_gops
    assert report.pictures.coded == len(packets)
    assert report.frames == len(CLIPS[name].numbers)
    assert report.b_frames == b_frames
    if name != "vp8_hidden":  # hidden pictures have the time of another
        times = [packet.pts for packet in packets]
        assert report.reorder_depth == max(sum(t > now for t in times[:k]) for k, now in enumerate(times))


@pytest.mark.parametrize("name", ["h264_open_gop", "h264_open_gop_pyramid"])
def test_leading_pictures(name: str, clip: ClipStore) -> None:
    leading, key = 0, -1
    for packet in read_packets(clip(name)):
        key = packet.pts if packet.is_keyframe else key
        leading += packet.pts < key
    assert leading > 0
    assert inspect_video(clip(name)).gops.leading_pictures == leading


@pytest.mark.parametrize("name", ["h264", "h264_15b", "h264_open_gop", "mpeg2_b"])
def test_disposable_share(name: str, clip: ClipStore) -> None:
    """In these streams without a pyramid of B-pictures exactly they are disposable; in x264's default some are not."""
    with av.open(str(clip(name))) as container:
        types = [PictureType(frame.pict_type).name for frame in container.decode(video=0)]
    report = inspect_video(clip(name))
    if name == "h264":
        assert 0 < report.pictures.disposable < types.count("B")
    else:
        assert report.pictures.disposable == types.count("B")
    assert report.pictures.disposable_share == report.pictures.disposable / len(types)


@pytest.mark.parametrize(
    ("name", "everything", "needed"),
    [
        ("h264_intra", 1, 1),
        ("h264_g2", 1.5, 1.5),
        ("av1_g2", 1.5, 1.5),
        ("hevc_no_b", 4.5, 4.5),
        # I P and 14 disposable B: 1, 2, then 3 for each of them
        ("h264_15b", 8.5, (1 + 2 + 14 * 3) / 16),
        ("hevc_closed_15b", 8.5, (1 + 2 + 14 * 3) / 16),
        ("h264_one_gop", 20.5, None),
        ("h264_ts", None, None),
    ],
)
def test_cost_of_a_random_frame(name: str, everything: float | None, needed: float | None, clip: ClipStore) -> None:
    cost = inspect_video(clip(name)).pictures_per_random_frame
    if everything is not None:
        assert cost.all == pytest.approx(everything)
    if needed is None:
        assert cost.needed < cost.all
    else:
        assert cost.needed == pytest.approx(needed)


def test_bytes_of_a_random_frame(clip: ClipStore) -> None:
    sizes = [packet.size for packet in read_packets(clip("h264_g2"))]
    keys, others = sizes[::2], sizes[1::2]
    mean = (2 * sum(keys) + sum(others)) / len(sizes)  # a key picture is read for itself and for its neighbour
    cost = inspect_video(clip("h264_g2")).bytes_per_random_frame
    assert cost.all == cost.needed == pytest.approx(mean)


@pytest.mark.parametrize(
    ("name", "tags", "read_as"),
    [
        ("h264", (None, None), "BT.601 limited"),
        ("h264_bt709", ("bt709", "limited"), "BT.709 limited"),
        ("h264_bt709_full", ("bt709", "full"), "BT.709 full"),
        ("h264_bt601", ("smpte170m", "limited"), "BT.601 limited"),
        ("hevc_bt2020_10bit", ("bt2020nc", "limited"), "BT.2020 limited"),
        ("h264_full", (None, "full"), "BT.601 full"),
        ("hevc_gray", (None, "limited"), "gray limited"),
    ],
)
def test_color(name: str, tags: tuple[str | None, str | None], read_as: str, clip: ClipStore) -> None:
    color = inspect_video(clip(name)).color
    assert (color.matrix, color.range) == tags
    assert color.read_as == read_as


@pytest.mark.parametrize(
    ("name", "profile", "depth"),
    [
        ("h264", "High", 8),
        ("h264_10bit", "High 10", 10),
        ("hevc", "Main", 8),
        ("hevc_10bit", "Main 10", 10),
        ("vp9", "Profile 0", 8),
        ("av1_10bit", "Main", 10),
        ("vp8", None, 8),
    ],
)
def test_profile_and_pixels(name: str, profile: str | None, depth: int, clip: ClipStore) -> None:
    report = inspect_video(clip(name))
    assert (report.profile, report.bit_depth) == (profile, depth)
    assert report.pixel_format == CLIPS[name].pix_fmt


@pytest.mark.parametrize(
    ("name", "variable"),
    [
        *((name, True) for name in ("vfr", "vfr_mkv", "time_base_1m", "gap")),
        *(
            (name, False)
            for name in ("h264", "h264_ts", "h264_flv", "time_base_90k", "start_10s_mkv", "edit_list", "vp9")
        ),
    ],
)
def test_variable_frame_rate(name: str, variable: bool, clip: ClipStore) -> None:
    report = inspect_video(clip(name))
    assert report.frame_times.variable == variable
    assert ("variable_frame_rate" in kinds(report)) == variable
    if name in ("vfr", "gap"):
        times = [CLIPS[name].pts(i) / 25 for i in range(CLIPS[name].count)]
        steps = np.diff(times)
        assert report.frame_times.shortest_seconds == pytest.approx(steps.min())
        assert report.frame_times.longest_seconds == pytest.approx(steps.max())


@pytest.mark.parametrize("milliseconds", [33.3666, 16.6833, 8.3417])
def test_times_in_whole_milliseconds_are_no_variable_rate(milliseconds: float, tmp_path: Path, clip: ClipStore) -> None:
    path = tmp_path / "rounded.mkv"
    with av.open(str(clip("h264_g2"))) as source, open_output(path) as out:
        stream = out.add_stream_from_template(source.streams.video[0])
        for number, packet in enumerate(packet for packet in source.demux(video=0) if packet.size):
            packet.time_base = Fraction(1, 1000)
            packet.pts = packet.dts = round(number * milliseconds)
            packet.stream = stream
            out.mux(packet)
    report = inspect_video(path)
    assert not report.frame_times.variable
    assert report.frame_times.longest_seconds > report.frame_times.shortest_seconds


def test_direct_or_through_the_demuxer(clip: ClipStore) -> None:
    assert [inspect_video(clip(name)).direct_reads for name in ("h264", "h264_mkv", "h264_ts")] == [True, True, False]


def test_rotated_size(clip: ClipStore) -> None:
    report = inspect_video(clip("rotate_90"))
    assert (report.width, report.height) == (CLIPS["rotate_90"].width, CLIPS["rotate_90"].height)
    assert abs(report.rotation) == 90


def test_hidden_and_cut_away(clip: ClipStore) -> None:
    assert inspect_video(clip("vp8_hidden")).pictures.hidden == 5
    report = inspect_video(clip("edit_list_no_b"))
    assert report.pictures.cut_away + report.frames == report.pictures.coded == 32
    assert report.frames == 27


def test_who_decodes(clip: ClipStore) -> None:
    assert inspect_video(clip("h264")).decoded_by.backend == "cpu"
    assert "libdav1d" in inspect_video(clip("av1_g2")).decoded_by.reason


def test_missing_bytes(clip: ClipStore) -> None:
    """The last two fifths of the file are gone; a packet that ends behind the cut is lost, and what follows it."""
    path = clip("truncated")
    lost = [packet.pos + packet.size > path.stat().st_size for packet in read_packets(clip("h264_faststart"))]
    report = inspect_video(path)
    assert report.damage.pictures == sum(lost) > 0
    assert report.frames == len(lost)
    assert sum(lost) <= report.damage.frames < report.frames
    assert "damaged" in kinds(report)


@pytest.mark.parametrize("name", ["h264", "edit_list_hevc", "hevc_cut", "h264_ts", "vp8_hidden", "mpeg4_avi"])
def test_sound_files_are_not_called_damaged(name: str, clip: ClipStore) -> None:
    report = inspect_video(clip(name))
    assert (report.damage.pictures, report.damage.frames) == (0, 0)
    assert "damaged" not in kinds(report)


@pytest.mark.parametrize(("name", "error"), [("garbage", UnreadableVideoError), ("audio_only", NoVideoStreamError)])
def test_what_is_no_video(name: str, error: type[Exception], clip: ClipStore) -> None:
    with pytest.raises(error):
        inspect_video(clip(name))


@pytest.mark.parametrize("name", ["h264", "hevc_ts", "vp9", "rotate_90_10bit", "mjpeg"])
def test_json_holds_everything(name: str, clip: ClipStore) -> None:
    facts: dict[str, Any] = json.loads(json.dumps(inspect_video(clip(name)).to_json()))
    assert facts["codec"] == {"vp9": "vp9", "mjpeg": "mjpeg", "h264": "h264"}.get(name, "hevc")
    assert set(facts["pictures_per_random_frame"]) == set(facts["bytes_per_random_frame"]) == {"all", "needed"}
    assert facts["gops"]["max"] >= facts["gops"]["min"]


def test_bytes_are_inspected_too(clip: ClipStore) -> None:
    report = inspect_video(clip("h264").read_bytes())
    assert report.frames == 48


def test_a_long_video_is_fast(clip: ClipStore, monkeypatch: pytest.MonkeyPatch) -> None:
    count = 99_999
    flags = [SYNC if k % 3_000 == 0 else DISPOSABLE * (k % 3 != 1) for k in range(count)]
    # Decoded I B B of the next, P B B, ...: every third picture two places ahead of its turn.
    order = [k + 2 if k % 3 == 1 else k - 1 if k else 0 for k in range(count)]
    index = index_of(flags, [0] * count, order)
    monkeypatch.setattr(inspection, "load_or_build", lambda *_, **__: index)
    started = time.perf_counter()
    report = inspect_video(clip("h264"))
    assert time.perf_counter() - started < 2
    assert report.frames == count
    assert report.reorder_depth == 1
    # The plan itself, on a few.
    some = index.presentation[::9_973].tolist()
    counts = [len(plan_runs(index, [p])[0].pictures) for p in some]
    assert inspection.sums_of_needed(index, np.ones(count))[::9_973].tolist() == counts


def kinds(report: VideoReport) -> list[str]:
    return [advice.kind for advice in report.advice]
