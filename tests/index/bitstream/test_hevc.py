"""HEVC headers written by hand: POC, end of sequence, hidden pictures, layers, damage (ITU-T H.265)."""

from __future__ import annotations

import pytest
from encoded_clips import bits, encode, ue

from videodataset.index.bitstream.hevc import HevcParser
from videodataset.index.bitstream.packet_info import UNSURE

_START = b"\0\0\1"
TRAIL_N, TRAIL_R, RADL_N, RASL_N, BLA, IDR, CRA = 0, 1, 6, 8, 16, 19, 21


def unit(kind: int, payload: bytes, layer: int = 0, temporal: int = 0) -> bytes:
    return bytes([kind << 1 | layer >> 5, (layer & 31) << 3 | temporal + 1]) + payload


def sps(number: int = 0, lsb_bits: int = 4) -> bytes:
    """7.3.2.2 up to log2_max_pic_order_cnt_lsb_minus4."""
    head = [(0, 4), (0, 3), (1, 1), (0x01600000, 32), (0xB00000000000, 48), (93, 16)]
    return unit(33, bits(*head, ue(number) + ue(1) + ue(64) + ue(64) + "0" + ue(0) + ue(0) + ue(lsb_bits - 4)))


def pps(output_flag: int = 0) -> bytes:
    return unit(34, bits(ue(0) + ue(0) + "0" + str(output_flag), (0, 3), "00"))


def picture(kind: int, count: int = 0, temporal: int = 0, layer: int = 0, shown: str = "") -> bytes:
    irap = "0" if kind >= 16 else ""
    lsb = "" if kind in (19, 20) else f"{count % 16:04b}"
    return _START + unit(kind, bits("1" + irap + ue(0) + ue(1) + shown + lsb), layer, temporal)


def parser(*units: bytes) -> HevcParser:
    return HevcParser(b"".join(_START + unit for unit in units or (sps(), pps())))


def test_kinds() -> None:
    p = parser()
    infos = {kind: p.packet(picture(kind), False) for kind in (IDR, CRA, BLA, TRAIL_N, TRAIL_R, RADL_N, RASL_N, 9)}
    assert {kind for kind, info in infos.items() if info.sync} == {IDR, CRA, BLA}
    assert {kind for kind, info in infos.items() if info.disposable} == {TRAIL_N, RADL_N, RASL_N}
    assert {kind for kind, info in infos.items() if info.skipped_leading} == {RASL_N, 9}
    assert not any(info.unsure for info in infos.values())


def test_order_continues_from_the_last_picture_of_layer_0_that_is_a_reference() -> None:
    """8.3.1 with MaxPicOrderCntLsb 16: prevTid0Pic skips RASL, RADL, sub-layer non-references and upper layers."""
    p = parser()
    p.packet(picture(IDR), True)
    steps = [
        (TRAIL_R, 7, 0),
        (TRAIL_R, 14, 0),
        (TRAIL_R, 21, 0),
        (TRAIL_N, 28, 0),
        (TRAIL_R, 28, 1),
        (9, 28, 0),
        (7, 28, 0),
    ]
    steps += [(TRAIL_R, 16, 0), (TRAIL_R, 23, 0)]
    assert [p.packet(picture(k, n, t), False).order for k, n, t in steps] == [(1, n) for _, n, _ in steps]


def test_sequences_begin_at_idr_bla_and_the_first_cra() -> None:
    p = parser()
    assert p.packet(picture(CRA, 5), True).order == (1, 5)
    assert p.packet(picture(TRAIL_R, 12), False).order == (1, 12)
    assert p.packet(picture(CRA, 19), True).order == (1, 19)
    assert p.packet(picture(BLA, 3), True).order == (2, 3)
    assert p.packet(picture(IDR), True).order == (3, 0)


@pytest.mark.parametrize("kind", [36, 37])
def test_after_an_end_of_sequence_a_cra_begins_one(kind: int) -> None:
    end = _START + unit(kind, b"")
    p = parser()
    p.packet(picture(IDR), True)
    assert p.packet(picture(TRAIL_R, 7) + end, False).order == (1, 7)
    assert p.packet(picture(CRA, 14), True).order == (2, 14)
    assert p.packet(end + picture(CRA, 15), True).order == (3, 15)
    assert p.packet(picture(TRAIL_R, 20), False).order == (3, 20)


def test_pic_output_flag() -> None:
    p = parser(sps(), pps(output_flag=1))
    assert not p.packet(picture(TRAIL_R, 1, shown="0"), False).shown
    info = p.packet(picture(TRAIL_R, 2, shown="1"), False)
    assert (info.shown, info.order) == (True, (0, 2))


def test_temporal_layer() -> None:
    assert [parser().packet(picture(TRAIL_N, 1, temporal=t), False).temporal_layer for t in (0, 1, 6)] == [0, 1, 6]


def test_other_nuh_layers_are_ignored() -> None:
    p = parser()
    info = p.packet(picture(TRAIL_N, 1) + picture(TRAIL_R, 1, layer=1), False)
    assert info.disposable
    assert p.packet(picture(TRAIL_R, 1, layer=33), False) is UNSURE
    before = p.parameter_sets
    p.set_extradata(_START + unit(33, sps(number=3)[2:], layer=1))
    assert p.parameter_sets is before


def test_every_slice_counts() -> None:
    assert not parser().packet(picture(TRAIL_N, 1) + picture(TRAIL_R, 1), False).disposable


def test_without_parameter_sets_the_unit_types_still_tell() -> None:
    info = HevcParser(b"").packet(picture(IDR), False)
    assert (info.sync, info.order, info.unsure) == (True, None, False)


def test_impossible_sets_are_not_taken() -> None:
    p = parser()
    before = p.parameter_sets
    p.set_extradata(
        _START + sps(number=16) + _START + sps(lsb_bits=17) + _START + unit(34, bits(ue(64) + ue(0) + "0000000"))
    )
    assert p.parameter_sets is before


def test_hvcc() -> None:
    clip = encode("libx265", "mp4", (("x265-params", "log-level=none:pools=1:frame-threads=1"),))
    p = clip.parser()
    assert p.nal_length_size == 4
    assert [(unit[0] >> 1) & 63 for unit in p.parameter_sets] == [32, 33, 34]


@pytest.mark.parametrize(
    "data",
    [
        b"",
        _START + b"\x40",
        _START + b"\x02\x01",
        _START + unit(TRAIL_R, b"\x7f"),
        picture(12),
        _START + unit(35, b"\x50"),
    ],
)
def test_unsure(data: bytes) -> None:
    assert parser().packet(data, True) is UNSURE
