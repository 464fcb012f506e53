"""Headers of pictures, against what FFmpeg makes of the same packets."""

from __future__ import annotations

from typing import Any

import av
import pytest
from av.video.frame import PictureType
from hypothesis import given, settings
from hypothesis import strategies as st

from clips import CLIPS, ClipStore
from videodataset.index.bitstream import PacketInfo, make_parser

CODECS = ["h264", "hevc", "av1", "vp8", "vp9", "mpeg1video", "mpeg2video", "mpeg4"]
WITH_ORDER = [
    name
    for name, clip in CLIPS.items()
    if clip.codec in ("libx264", "libx265", "mpeg4", "mpeg1video", "mpeg2video")
    and clip.times == "exact"
    and clip.shown is None
]


def read(path: Any, stream_index: int | None = None) -> tuple[list[PacketInfo], list[Any]]:
    """What our parser says of each packet of the best video stream, and the packets."""
    with av.open(str(path)) as container:
        stream = container.streams.best("video") if stream_index is None else container.streams[stream_index]
        context = stream.codec_context
        parser = make_parser(context.codec.canonical_name, context.extradata, context.codec.intra_only)
        assert parser is not None
        packets = [packet for packet in container.demux(stream) if packet.size]
        return [parser.packet(bytes(packet), packet.is_keyframe) for packet in packets], packets


@pytest.mark.parametrize("name", WITH_ORDER)
def test_order_sorts_pictures_as_their_times_do(name: str, clip: ClipStore) -> None:
    infos, packets = read(clip(name))
    assert all(info.order is not None for info in infos)
    by_order = sorted(range(len(infos)), key=lambda k: infos[k].order)  # type: ignore[arg-type, return-value]
    by_time = sorted(range(len(packets)), key=lambda k: packets[k].pts)
    assert by_order == by_time


@pytest.mark.parametrize("name", CLIPS)
def test_shown_pictures_are_as_many_as_frames_come_out(name: str, clip: ClipStore) -> None:
    infos, _ = read(clip(name))
    assert not any(info.unsure for info in infos)
    assert infos[0].sync or name.startswith(("cut", "h264_cut"))
    with av.open(str(clip(name))) as container:
        stream = container.streams.best("video")
        frames = list(container.decode(stream))
    shown = sum(info.shown and info.new_picture for info in infos)
    if CLIPS[name].remux is None:
        assert shown == len(frames)
        # PyAV 18 gives the picture type as an int, older ones as a PictureType.
        kinds = {frame.pts: PictureType(frame.pict_type).name for frame in frames if frame.pts is not None}
        for info, packet in zip(infos, read(clip(name))[1], strict=True):
            kind = kinds.get(packet.pts)
            if kind is not None and info.shown and CLIPS[name].codec.startswith(("mpeg", "libx264")):
                assert not info.sync or kind == "I"
                assert not info.disposable or kind in ("B", "P")


def test_intra_refresh_has_one_sync_picture(clip: ClipStore) -> None:
    infos, packets = read(clip("h264_intra_refresh"))
    assert [info.sync for info in infos].index(True) == 0
    assert sum(info.sync for info in infos) == 1
    assert len(packets) > 20


def test_hevc_open_gop_marks_skipped_leading_pictures(clip: ClipStore) -> None:
    infos, packets = read(clip("hevc"))
    marked = [k for k, info in enumerate(infos) if info.skipped_leading]
    for k in marked:
        sync = max(j for j in range(k) if infos[j].sync)
        assert packets[k].pts < packets[sync].pts


@pytest.mark.parametrize("name", ["h264", "h264_15b"])
def test_disposable_is_what_ffmpegs_nonref_filter_leaves_out(name: str, clip: ClipStore) -> None:
    infos, packets = read(clip(name))
    with av.open(str(clip(name))) as container:
        stream = container.streams.video[0]
        stream.codec_context.skip_frame = "NONREF"
        kept = {frame.pts for frame in container.decode(stream)}
    left_out = {packet.pts for info, packet in zip(infos, packets, strict=True) if info.disposable}
    assert left_out == {packet.pts for packet in packets} - kept
    assert left_out


@pytest.mark.parametrize("codec", CODECS)
@given(data=st.data())
@settings(max_examples=150, deadline=None)
def test_any_bytes_are_answered(codec: str, data: st.DataObject) -> None:
    parser = make_parser(codec, data.draw(st.binary(max_size=60)), False)
    assert parser is not None
    prefix = data.draw(st.sampled_from([b"", b"\0\0\1", b"\0\0\0\1\x67", b"\0\0\1\xb6", b"\0\0\1\0", b"\x12\0"]))
    for _ in range(3):
        info = parser.packet(prefix + data.draw(st.binary(max_size=120)), True)
        assert isinstance(info, PacketInfo)


@pytest.mark.parametrize("name", ["h264", "hevc", "av1_g2", "av1_hierarchical", "vp9", "vp8", "mpeg4_b", "mpeg2_b"])
def test_flipped_headers_are_answered(name: str, clip: ClipStore) -> None:
    with av.open(str(clip(name))) as container:
        stream = container.streams.video[0]
        context = stream.codec_context
        packets = [bytes(packet) for packet in container.demux(stream) if packet.size][:6]
        codec, extradata = context.codec.canonical_name, context.extradata
    for bit in range(0, 8 * 40, 3):
        parser = make_parser(codec, extradata, False)
        assert parser is not None
        for packet in packets:
            damaged = bytearray(packet)
            if bit // 8 < len(damaged):
                damaged[bit // 8] ^= 1 << bit % 8
            assert isinstance(parser.packet(bytes(damaged), False), PacketInfo)
