"""Which parser serves which codec, and that none ever raises."""

from __future__ import annotations

import time

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from test_against_decoder import CLIPS

from videodataset.index.bitstream import PacketInfo, make_parser

CODECS = ["h264", "hevc", "av1", "vp8", "vp9", "mpeg1video", "mpeg2video", "mpeg4"]
UNSURE = PacketInfo(unsure=True)


def test_intra_codecs() -> None:
    for codec, intra_only in (("mjpeg", False), ("mjpeg", True), ("prores", True), ("anything", True)):
        parser = make_parser(codec, None, intra_only)
        assert parser is not None
        assert parser.packet(b"x", False) == PacketInfo(sync=True, disposable=True)
        assert (parser.parameter_sets, parser.nal_length_size) == ((), 0)
    assert make_parser("theora", b"", False) is None


@pytest.mark.parametrize("name", [name for name in CLIPS if name not in ("mjpeg", "prores")])
@given(data=st.data())
@settings(max_examples=40, deadline=None)
def test_mutated_packets_are_answered(name: str, data: st.DataObject) -> None:
    clip = CLIPS[name]()
    extradata = bytearray(clip.extradata)
    _mutate(extradata, data)
    parser = make_parser(clip.codec, bytes(extradata), False)
    assert parser is not None
    for packet in clip.packets[:4]:
        mutated = bytearray(packet)
        _mutate(mutated, data)
        info = parser.packet(bytes(mutated), data.draw(st.booleans()))
        assert not info.unsure or info == UNSURE
        assert isinstance(parser.parameter_sets, tuple)
        if data.draw(st.booleans()):
            parser.set_extradata(bytes(mutated))


def _mutate(packet: bytearray, data: st.DataObject) -> None:
    for _ in range(data.draw(st.integers(0, 4))):
        if packet:
            packet[data.draw(st.integers(0, min(len(packet) - 1, 80)))] = data.draw(st.integers(0, 255))
    if data.draw(st.booleans()):
        del packet[data.draw(st.integers(0, min(len(packet), 80))) :]


@pytest.mark.parametrize("codec", CODECS)
@pytest.mark.parametrize(
    "data",
    [
        bytes(1 << 20),
        b"\xff" * (1 << 20),
        b"\0\0\1\x67" + b"\x64\0\x1e" + b"\xad" * (1 << 20),  # H.264 SPS
        b"\0\0\1\x42\x01\x0f" + b"\x55" * (1 << 20),  # HEVC SPS
        b"\0\0\1\x06" + b"\xff" * (1 << 20),  # SEI
        b"\0\0\1" * (1 << 15),
        b"\x0a\x80" * (1 << 15),  # OBUs
        b"\0\0\1\xb5" * (1 << 14) + b"\0\0\1\0",
    ],
    ids=range(8),
)
def test_a_megabyte_of_nonsense_takes_no_time(codec: str, data: bytes) -> None:
    start = time.perf_counter()
    for extradata in (b"", b"\x01\x64\0\x1e\xff\xe0\0" + bytes(40)):
        parser = make_parser(codec, extradata, False)
        assert parser is not None
        parser.packet(data, True)
        parser.set_extradata(data)
    assert time.perf_counter() - start < 3
