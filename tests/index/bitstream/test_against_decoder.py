"""What the parsers say, against what FFmpeg's decoders do with the same packets."""

from __future__ import annotations

import pytest
from encoded_clips import Clip, by_order, decode, encode

X265 = "log-level=none:pools=1:frame-threads=1"
SVT = (("preset", "10"), ("crf", "35"))

CLIPS = {
    "h264": lambda: encode("libx264", "mp4", b_frames=3),
    "h264_annexb": lambda: encode("libx264", "h264", b_frames=3),
    "h264_pyramid_open": lambda: encode(
        "libx264", "mp4", (("x264-params", "open-gop=1:b-pyramid=normal:bframes=7:b-adapt=0"),)
    ),
    "h264_interlaced_ts": lambda: encode("libx264", "mpegts", (("x264-params", "tff=1:bframes=2"),)),
    "h264_slices": lambda: encode("libx264", "matroska", (("x264-params", "slices=3"),)),
    "h264_444": lambda: encode("libx264", "mp4", pixel_format="yuv444p"),
    "h264_scaling_lists": lambda: encode("libx264", "mp4", (("x264-params", "cqm=jvt"),)),
    "h264_no_b": lambda: encode("libx264", "mp4", b_frames=0),  # pic_order_cnt_type 2
    "h264_long": lambda: encode("libx264", "mp4", (("preset", "ultrafast"), ("bf", "2")), gop=200, count=120),
    "hevc_open": lambda: encode("libx265", "mp4", (("x265-params", X265 + ":open-gop=1:bframes=4"),)),
    "hevc_closed": lambda: encode("libx265", "hevc", (("x265-params", X265 + ":open-gop=0"),)),
    "hevc_layers": lambda: encode("libx265", "mp4", (("x265-params", X265 + ":temporal-layers=3:bframes=3"),)),
    "hevc_long": lambda: encode(
        "libx265", "mp4", (("x265-params", X265 + ":bframes=2"), ("preset", "ultrafast")), gop=400, count=300
    ),
    "mpeg2": lambda: encode("mpeg2video", "mpegts", b_frames=2),
    "mpeg2_interlaced": lambda: encode("mpeg2video", "mpegts", (("flags", "+ildct+ilme"),), b_frames=2),
    "mpeg2_closed": lambda: encode(
        "mpeg2video", "mpegts", (("flags", "+cgop"), ("sc_threshold", "1000000000")), b_frames=2
    ),
    "mpeg1": lambda: encode("mpeg1video", "mpeg", b_frames=2),
    "mpeg4": lambda: encode("mpeg4", "mp4", b_frames=2),
    "mpeg4_avi": lambda: encode("mpeg4", "avi", b_frames=2),
    "av1": lambda: encode("libsvtav1", "mp4", SVT, gop=16),
    "vp8": lambda: encode("libvpx", "webm", (("cpu-used", "8"), ("deadline", "realtime"))),
    "vp9_alt_ref": lambda: encode(
        "libvpx-vp9",
        "webm",
        (("deadline", "realtime"), ("cpu-used", "6"), ("auto-alt-ref", "1"), ("lag-in-frames", "16"), ("b", "150k")),
        gop=20,
    ),
    "mjpeg": lambda: encode("mjpeg", "matroska", pixel_format="yuvj420p", count=6),
    "prores": lambda: encode("prores_ks", "mov", pixel_format="yuv422p10le", count=4),
}
#: Here sorting by `order` must give the display order.
ORDERED = [name for name in CLIPS if name.startswith(("h264", "hevc", "mpeg"))]


@pytest.fixture(params=CLIPS)
def encoded(request: pytest.FixtureRequest) -> Clip:
    return CLIPS[request.param]()


@pytest.mark.parametrize("name", ORDERED)
def test_order_is_that_of_the_decoders_output(name: str) -> None:
    clip = CLIPS[name]()
    infos = clip.infos()
    assert all(info.order is not None for info in infos)
    assert by_order(infos) == [frame.number for frame in decode(clip)]


def test_as_many_frames_come_out_as_are_shown(encoded: Clip) -> None:
    infos = encoded.infos()
    assert not any(info.unsure for info in infos)
    assert infos[0].sync
    assert sum(info.shown and info.new_picture for info in infos) == len(decode(encoded))


def test_picture_types(encoded: Clip) -> None:
    infos = encoded.infos()
    for frame in decode(encoded):
        info = infos[frame.number]
        assert not info.sync or frame.kind == "I"
        if encoded.codec.startswith("mpeg"):
            assert (frame.kind == "B") == info.disposable
            assert (frame.kind == "I") == info.sync


def test_disposable_pictures_are_missed_by_no_other(encoded: Clip) -> None:
    infos = encoded.infos()
    top = max(info.temporal_layer for info in infos)
    left_out = {k for k, info in enumerate(infos) if info.disposable and info.temporal_layer == top}
    # A decoder drops pictures whose references are missing, so all that was fed has to come out as well.
    everything = {frame.number: frame.digest for frame in decode(encoded)}
    kept = [k for k in range(len(infos)) if k not in left_out]
    out = {frame.number: frame.digest for frame in decode(encoded, kept)}
    assert out == {k: everything[k] for k in kept if infos[k].shown}


@pytest.mark.parametrize("name", CLIPS)
def test_some_pictures_are_disposable_and_some_are_not(name: str) -> None:
    infos = CLIPS[name]().infos()
    disposable = {info.disposable for info in infos}
    if name in ("mjpeg", "prores"):
        assert disposable == {True}
    elif name in ("h264_no_b", "vp8", "vp9_alt_ref"):
        assert disposable == {False}
    else:
        assert disposable == {False, True}
    assert {info.temporal_layer for info in infos} == ({0, 1, 2} if name == "hevc_layers" else {0})


def test_decoding_starts_at_every_sync_packet(encoded: Clip) -> None:
    """Pictures shown from the sync picture on come out as they do from the beginning."""
    infos = encoded.infos()
    frames = decode(encoded)
    everything = {frame.number: frame.digest for frame in frames}
    shown_at = {frame.number: k for k, frame in enumerate(frames)}
    for sync in [k for k, info in enumerate(infos) if info.sync][1:3]:
        fed = [k for k in range(sync, len(infos)) if shown_at.get(k, sync) >= shown_at[sync]]
        out = decode(encoded, fed)
        assert [frame.number for frame in out] == sorted(set(fed) & set(shown_at), key=shown_at.__getitem__)
        assert all(frame.digest == everything[frame.number] for frame in out)


@pytest.mark.parametrize("name", ["hevc_open", "mpeg2", "mpeg2_closed", "mpeg1"])
def test_skipped_leading_is_what_a_decoder_drops_after_a_sync_picture(name: str) -> None:
    clip = CLIPS[name]()
    infos = clip.infos()
    assert any(info.skipped_leading for info in infos) == (name != "mpeg2_closed")
    syncs = [k for k, info in enumerate(infos) if info.sync]
    assert len(syncs) > 2
    for sync, following in zip(syncs[1:], [*syncs[2:], len(infos)], strict=True):
        out = {frame.number for frame in decode(clip, range(sync, following))}
        assert set(range(sync, following)) - out == {k for k in range(sync, following) if infos[k].skipped_leading}


def test_the_same_from_a_memoryview(encoded: Clip) -> None:
    parser = encoded.parser()
    assert [parser.packet(memoryview(data), False) for data in encoded.packets] == encoded.infos()


def test_parameter_sets_stay_the_same_object(encoded: Clip) -> None:
    parser = encoded.parser()
    parser.packet(encoded.packets[0], True)
    sets = parser.parameter_sets
    for data in encoded.packets:
        parser.packet(data, False)
        assert parser.parameter_sets is sets
    assert bool(sets) == (encoded.codec not in ("vp8", "vp9") and not encoded.intra_only)
