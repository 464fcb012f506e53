"""The clips are what their recipes say; read with PyAV only."""

from __future__ import annotations

import av
import numpy as np
import pytest

from clips import CLIPS, ClipStore, read_number
from clips.draw import MAX_NUMBER, draw
from reference import Reference

INTERLACED = ["h264_mbaff", "h264_bottom_first"]


@pytest.mark.parametrize("name", CLIPS)
def test_pictures_carry_their_numbers(name: str, reference: Reference) -> None:
    frames = reference(name)
    assert [read_number(frame.swscale.transpose(2, 0, 1)) for frame in frames] == CLIPS[name].numbers
    assert all((frame.pts_seconds is None) == (CLIPS[name].times == "none") for frame in frames)


@pytest.mark.parametrize("size", [(96, 64), (128, 96), (161, 129)])
def test_number_is_read_back(size: tuple[int, int]) -> None:
    for number in range(MAX_NUMBER + 1):
        assert read_number(draw(number, *size).transpose(2, 0, 1)) == number


def test_turned_and_torn_pictures_have_no_number() -> None:
    picture = draw(37, 128, 96).transpose(2, 0, 1)
    assert read_number(picture[:, ::-1]) is None
    assert read_number(picture[:, :, ::-1]) is None
    assert read_number(np.full_like(picture, 128)) is None


@pytest.mark.parametrize("name", ["h264", "h264_open_gop", "hevc", "hevc_pyramid", "mpeg4_b", "mpeg2_b", "mpeg1_b"])
def test_b_frames_are_there(name: str, clip: ClipStore) -> None:
    with av.open(str(clip(name))) as container:
        times = [packet.pts for packet in container.demux(video=0) if packet.size]
    assert times != sorted(times)


@pytest.mark.parametrize("name", INTERLACED)
def test_interlaced(name: str, clip: ClipStore) -> None:
    with av.open(str(clip(name))) as container:
        assert all(frame.interlaced_frame for frame in container.decode(video=0))


@pytest.mark.parametrize("name", ["vp8_hidden", "vp9", "av1_hierarchical"])
def test_alt_ref_is_there(name: str, clip: ClipStore) -> None:
    """VP8 has a packet that is not shown; VP9 and AV1 hide pictures inside a packet, so some packet holds two."""
    with av.open(str(clip(name))) as container:
        packets = [bytes(packet) for packet in container.demux(video=0) if packet.size]
    if name == "vp8_hidden":
        assert any(not packet[0] & 0x10 for packet in packets)
    elif name == "vp9":
        assert any(packet[-1] & 0xE0 == 0xC0 for packet in packets)
    else:
        assert any(len(_frame_units(packet)) > 1 for packet in packets)


def _frame_units(packet: bytes) -> list[int]:
    """Types of the AV1 units in a packet that hold a frame (3: header, 6: frame); each states its size."""
    units, at = [], 0
    while at < len(packet):
        kind, has_extension = (packet[at] >> 3) & 15, (packet[at] >> 2) & 1
        at += 1 + has_extension
        size = shift = 0
        while True:
            byte = packet[at]
            at += 1
            size |= (byte & 127) << shift
            shift += 7
            if not byte & 128:
                break
        at += size
        if kind in (3, 6):
            units.append(kind)
    return units
