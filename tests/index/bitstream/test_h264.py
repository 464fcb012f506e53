"""H.264 headers no encoder of FFmpeg writes: field pairs, picture order count type 1, recovery points, damage."""

from __future__ import annotations

import pytest
from encoded_clips import bits, encode, se, ue

from videodataset.index.bitstream.h264 import H264Parser
from videodataset.index.bitstream.packet_info import UNSURE

_START = b"\0\0\1"
_RECOVERY = b"\x06\x06\x01"


def sps(order: str = ue(0) + ue(0), frames_only: int = 0, number: int = 0) -> bytes:
    """7.3.2.1.1, main profile, frame_num of 4 bits; type 0 with pic_order_cnt_lsb of 4 bits unless told."""
    tail = ue(1) + "0" + ue(5) + ue(3) + str(frames_only)
    return b"\x67" + bits((77, 8), (0, 8), (30, 8), ue(number) + ue(0) + order + tail)


def pps(order_in_slice: int = 0) -> bytes:
    return b"\x68" + bits(ue(0) + ue(0) + "1" + str(order_in_slice))


def picture(frame_num: int, tail: str, field: str = "0", kind: int = 1, ref: int = 1, extra: str = "") -> bytes:
    """One slice; field: "0" = frame, "10" = top, "11" = bottom; tail: what follows (the order)."""
    idr = ue(0) if kind == 5 else ""
    return _START + bytes([ref << 5 | kind]) + bits(ue(0) + ue(0) + ue(0), (frame_num, 4), field + idr + tail + extra)


def lsb(value: int) -> str:
    return f"{value:04b}"


def parser(*units: bytes) -> H264Parser:
    return H264Parser(b"".join(_START + unit for unit in units or (sps(), pps())))


def test_second_field_joins_the_picture_before() -> None:
    p = parser()
    first = p.packet(picture(0, lsb(0), "10", kind=5), True)
    assert (first.sync, first.new_picture, first.order) == (True, True, (1, 0))
    second = p.packet(picture(0, lsb(1), "11"), False)
    assert (second.new_picture, second.disposable) == (False, False)
    third = p.packet(picture(1, lsb(2), "10", ref=0), False)
    assert (third.new_picture, third.disposable) == (True, True)
    assert not p.packet(picture(1, lsb(3), "11", ref=0), False).new_picture


@pytest.mark.parametrize(
    "following",
    [
        picture(0, lsb(2), "10"),  # same parity
        picture(1, lsb(2), "11"),  # other frame_num
        picture(0, lsb(2), "0"),  # a frame
        picture(0, lsb(0), "11", kind=5),  # an IDR picture begins anew
        picture(0, lsb(2), "11") + picture(0, lsb(3), "10"),  # both fields in one packet
    ],
)
def test_no_second_field(following: bytes) -> None:
    p = parser()
    p.packet(picture(0, lsb(0), "10", kind=5), True)
    assert p.packet(following, False).new_picture


def test_a_packet_of_both_fields_leaves_none_open() -> None:
    p = parser()
    p.packet(picture(0, lsb(0), "10", kind=5) + picture(0, lsb(1), "11"), True)
    assert p.packet(picture(1, lsb(2), "10") + picture(1, lsb(3), "11"), False).new_picture
    assert p.packet(picture(1, lsb(4), "10"), False).new_picture, "the second field before closed the pair"


def test_a_third_field_is_a_new_picture() -> None:
    p = parser()
    infos = [p.packet(picture(0, lsb(k), field), False) for k, field in enumerate(["10", "11", "10", "11"])]
    assert [info.new_picture for info in infos] == [True, False, True, False]


def test_order_wraps_and_non_reference_pictures_do_not_move_it() -> None:
    """8.2.1.1 with MaxPicOrderCntLsb 16."""
    p = parser()
    p.packet(picture(0, lsb(0), kind=5), True)
    orders = [
        p.packet(picture(1, lsb(count % 16), ref=ref), False).order
        for count, ref in ((6, 1), (12, 1), (18, 1), (14, 0), (25, 0), (24, 1))
    ]
    assert orders == [(1, 6), (1, 12), (1, 18), (1, 14), (1, 25), (1, 24)]


def test_the_smaller_field_counts() -> None:
    p = parser(sps(), pps(order_in_slice=1))
    assert p.packet(picture(0, lsb(4) + se(-3), kind=5), True).order == (1, 1)
    assert p.packet(picture(0, lsb(6) + se(3)), True).order == (1, 6)


def test_order_type_1() -> None:
    """8.2.1.2: a cycle of one reference frame, offset 4; non-reference -2; bottom field 1 above."""
    order = ue(1) + "0" + se(-2) + se(1) + ue(1) + se(4)
    p = parser(sps(order), pps())
    assert p.packet(picture(0, se(0), kind=5), True).order == (1, 0)
    assert p.packet(picture(1, se(0)), False).order == (1, 4)
    assert p.packet(picture(2, se(0), ref=0), False).order == (1, 2)
    assert p.packet(picture(2, se(3)), False).order == (1, 11)
    assert p.packet(picture(3, se(0), "11"), False).order == (1, 13)
    for frame_num in range(4, 16):
        p.packet(picture(frame_num, se(0)), False)
    assert p.packet(picture(0, se(0)), False).order == (1, 64), "frame_num wraps (MaxFrameNum 16)"


def test_order_type_1_reads_the_bottom_delta() -> None:
    p = parser(sps(ue(1) + "0" + se(0) + se(1) + ue(1) + se(4)), pps(order_in_slice=1))
    p.packet(picture(0, se(0) + se(0), kind=5), True)
    assert p.packet(picture(1, se(0) + se(-3)), False).order == (1, 2)


def test_order_type_2() -> None:
    p = parser(sps(ue(2)), pps())
    assert p.packet(picture(0, "", kind=5), True).order == (1, 0)
    assert p.packet(picture(1, "", ref=0), False).order == (1, 1)
    assert p.packet(picture(1, ""), False).order == (1, 2)


@pytest.mark.parametrize(("count", "sync"), [(0, True), (1, False), (12, False)])
@pytest.mark.parametrize(
    "before", [b"", b"\x06\x05\x02ab\x80", b"\x06\x05\xff\x01" + bytes(range(1, 129)) * 2 + b"\x80"]
)
def test_recovery_point(count: int, sync: bool, before: bytes) -> None:
    """D.1.8; the container's key flag does not matter."""
    sei = (
        _START
        + _RECOVERY
        + bits(
            ue(count) + "1000",
        )[:1]
        + b"\x80"
    )
    unit = (_START + before if before else b"") + sei + picture(3, lsb(0))
    for key_hint in (False, True):
        assert parser().packet(unit, key_hint).sync is sync


def test_a_plain_intra_picture_is_no_sync_picture() -> None:
    intra = _START + b"\x61" + bits(ue(0) + ue(7) + ue(0), (1, 4), "0" + lsb(0))
    assert not parser().packet(intra, True).sync


def test_disposable_over_all_slices() -> None:
    p = parser()
    both = picture(1, lsb(2), "10", ref=0) + picture(1, lsb(3), "11", ref=1)
    assert not p.packet(both, False).disposable
    assert p.packet(picture(1, lsb(2), "10", ref=0) + picture(1, lsb(3), "11", ref=0), False).disposable


def test_without_parameter_sets_the_unit_types_still_tell() -> None:
    p = H264Parser(b"")
    info = p.packet(picture(0, lsb(0), kind=5), False)
    assert (info.sync, info.order, info.unsure) == (True, None, False)
    assert p.packet(picture(0, lsb(0), ref=0), False).disposable


def test_sets_in_packets_replace_those_of_the_same_number() -> None:
    p = parser(sps(), pps())
    before = p.parameter_sets
    assert before == (sps(), pps())
    p.packet(_START + sps() + _START + pps() + picture(0, lsb(0), kind=5), True)
    assert p.parameter_sets is before
    p.packet(_START + sps(ue(2)) + picture(0, "", kind=5), True)
    assert p.parameter_sets == (sps(ue(2)), pps())
    p.packet(_START + sps(number=1) + picture(0, "", kind=5), True)
    assert p.parameter_sets == (sps(ue(2)), sps(number=1), pps())


def test_impossible_sets_are_not_taken() -> None:
    p = parser()
    before = p.parameter_sets
    p.set_extradata(
        _START + sps(number=32) + _START + sps(order=ue(3)) + _START + b"\x68" + bits(ue(256) + ue(0) + "10")
    )
    assert p.parameter_sets is before


def test_avcc_gives_the_length_size() -> None:
    clip = encode("libx264", "mp4", b_frames=3)
    p = clip.parser()
    assert p.nal_length_size == 4
    assert [unit[0] & 31 for unit in p.parameter_sets] == [7, 8]
    p.set_extradata(_START + sps() + _START + pps())
    assert p.nal_length_size == 4, "bare units change the sets, not the framing"


@pytest.mark.parametrize("data", [b"", b"\0", _START, _START + b"\x65", _START + b"\x09\xf0", b"\0\0\1\x41\x80"])
def test_unsure(data: bytes) -> None:
    assert parser().packet(data, True) is UNSURE


def test_scaling_lists_are_read_over() -> None:
    """7.3.2.1.1.1: six lists of 16 and two of 64; one ends early (next scale 0), one is left out."""
    lists = "".join("1" + se(1) * (16 if k < 6 else 64) for k in range(8))
    short = "1" + se(-8) + "0" + "".join("1" + se(1) * (16 if k < 6 else 64) for k in range(2, 8))
    for matrix in (lists, short):
        head = (100, 8), (0, 8), (30, 8)
        fields = (
            ue(0) + ue(1) + ue(0) + ue(0) + "0" + "1" + matrix + ue(0) + ue(0) + ue(0) + ue(1) + "0" + ue(5) + ue(3)
        )
        p = parser(b"\x67" + bits(*head, fields + "1"), pps())
        assert p.packet(picture(0, lsb(0), field="", kind=5), True).order == (1, 0)
        assert p.packet(picture(1, lsb(6), field=""), False).order == (1, 6)
