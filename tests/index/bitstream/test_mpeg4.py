"""MPEG-4 part 2: VOPs that are not coded, packed B-frames, layer headers (ISO/IEC 14496-2 6.2)."""

from __future__ import annotations

import pytest
from encoded_clips import Clip, bits, by_order, decode, encode

from videodataset.index.bitstream.mpeg4 import Mpeg4Parser
from videodataset.index.bitstream.packet_info import UNSURE

VOP = b"\0\0\1\xb6"


def layer(resolution: int, *, version: str = "0", aspect: str = "0001", control: str = "0", shape: str = "00") -> bytes:
    """6.2.3 up to vop_time_increment_resolution."""
    return b"\0\0\1\x20" + bits("0" + "00000001" + version + aspect + control + shape + "1", (resolution, 16), "1")


def vop(kind: int, coded: int, time_bits: int, modulo: int = 0) -> bytes:
    return VOP + bits((kind, 2), "1" * modulo + "0" + "1" + "0" * time_bits + "1" + str(coded))


@pytest.mark.parametrize("b_frames", [0, 2])
@pytest.mark.parametrize("uncoded", [{5}, {4}, {10}, {4, 5}, {12, 13}])
def test_vops_that_are_not_coded_give_no_frame(b_frames: int, uncoded: set[int]) -> None:
    clip = encode("mpeg4", "mp4", b_frames=b_frames)
    packets = [_not_coded(clip, data) if k in uncoded else data for k, data in enumerate(clip.packets)]
    p = clip.parser()
    infos = [p.packet(data, False) for data in packets]
    assert {k for k, info in enumerate(infos) if not info.shown} == uncoded
    assert by_order(infos) == [frame.number for frame in decode(clip, packets=packets)]


def _not_coded(clip: Clip, data: bytes) -> bytes:
    start = data.index(VOP)
    assert b"\0\0\1\x20" in clip.extradata
    kind = data[start + 4] >> 6
    rest = bin(int.from_bytes(b"\1" + data[start + 4 : start + 12], "big"))[3:]
    modulo = rest[2:].index("0")
    increment = rest[2 + modulo + 2 : 2 + modulo + 2 + 5]  # 25 fps: 5 bits
    return data[:start] + VOP + bits((kind, 2), "1" * modulo + "01" + increment + "10")


@pytest.mark.parametrize(("resolution", "time_bits"), [(1, 1), (2, 1), (25, 5), (30000, 15), (65535, 16)])
@pytest.mark.parametrize(
    "fields",
    [
        {},
        {"version": "1" + "0010" + "001"},
        {"aspect": "1111" + "0" * 16},
        {"control": "1" + "011" + "0"},
        {"control": "1" + "011" + "1" + "0" * 79},
        {"version": "1" + "0010" + "001", "shape": "11" + "0000"},
    ],
)
def test_layer_header(resolution: int, time_bits: int, fields: dict[str, str]) -> None:
    p = Mpeg4Parser(layer(resolution, **fields))
    for modulo in (0, 3):
        assert [p.packet(vop(1, coded, time_bits, modulo), False).shown for coded in (1, 0)] == [True, False]


def test_kinds() -> None:
    p = Mpeg4Parser(layer(25))
    infos = [p.packet(vop(kind, 1, 5), False) for kind in range(4)]  # I, P, B, S
    assert [info.sync for info in infos] == [True, False, False, False]
    assert [info.disposable for info in infos] == [False, False, True, False]
    assert not p.packet(vop(0, 0, 5), True).sync


def test_packed_is_remembered() -> None:
    p = Mpeg4Parser(layer(25))
    p.packet(vop(1, 1, 5), False)
    assert not p.packed
    p.packet(vop(1, 1, 5) + vop(2, 1, 5), False)
    p.packet(vop(1, 0, 5), False)
    assert p.packed


def test_configuration_in_packets() -> None:
    p = Mpeg4Parser(layer(25))
    sets = p.parameter_sets
    p.packet(layer(25) + b"\0\0\1\xb3\0\x10\x07" + vop(0, 1, 5), True)
    assert p.parameter_sets is sets
    p.packet(layer(30000) + vop(0, 1, 15), True)
    assert p.parameter_sets == (layer(30000),)


@pytest.mark.parametrize("data", [b"", VOP, VOP + b"\xff" * 100, b"\0\0\1\xb3\0"])
def test_unsure(data: bytes) -> None:
    assert Mpeg4Parser(layer(25)).packet(data, True) is UNSURE
