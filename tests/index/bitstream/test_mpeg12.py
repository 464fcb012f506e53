"""MPEG-1/2 headers: field pairs, closed GOPs, sequence headers (ISO/IEC 13818-2 6.2)."""

from __future__ import annotations

import pytest
from encoded_clips import by_order, encode

from videodataset.index.bitstream.mpeg12 import Mpeg12Parser
from videodataset.index.bitstream.packet_info import UNSURE

I_, P, B = 1, 2, 3
TOP, BOTTOM, FRAME = 1, 2, 3
SEQUENCE = b"\0\0\1\xb3\x06\x00\x40\x13\xff\xff\xe0\x18"
EXTENSION = b"\0\0\1\xb5\x14\x8a\x00\x01\x00\x00"


def picture(kind: int, structure: int = FRAME, reference: int = 0) -> bytes:
    header = (reference << 22 | kind << 19 | 0xFFFF << 3).to_bytes(4, "big")
    return b"\0\0\1\0" + header + b"\0\0\1\xb5\x8f\xff" + bytes([0xF0 | structure]) + b"\x80\0" + b"\0\0\1\1abc"


def group(closed: bool) -> bytes:
    return b"\0\0\1\xb8\0\x08\0" + bytes([0x40 * closed])


def test_field_pairs() -> None:
    p = Mpeg12Parser(b"")
    fields = [(I_, TOP), (P, BOTTOM), (B, BOTTOM), (B, TOP), (P, TOP), (P, TOP), (P, BOTTOM), (P, TOP), (P, FRAME)]
    infos = [p.packet(picture(kind, structure), False) for kind, structure in fields]
    assert [info.new_picture for info in infos] == [True, False, True, False, True, True, False, True, True]
    assert [info.disposable for info in infos[:4]] == [False, False, True, True]
    assert [info.sync for info in infos[:2]] == [True, False]


def test_both_fields_in_one_packet() -> None:
    p = Mpeg12Parser(b"")
    infos = [p.packet(picture(I_, TOP) + picture(P, BOTTOM), False), p.packet(picture(P, BOTTOM), False)]
    assert [info.new_picture for info in infos] == [True, True]


def test_damage_ends_the_wait_for_a_second_field() -> None:
    p = Mpeg12Parser(b"")
    p.packet(picture(I_, TOP), False)
    assert p.packet(b"\0\0\1\xb3", False) is UNSURE
    assert p.packet(picture(P, BOTTOM), False).new_picture


def test_leading_pictures_of_open_and_closed_groups() -> None:
    p = Mpeg12Parser(b"")
    packets = [group(True) + picture(I_), picture(B), picture(P), picture(B)]  # closed
    packets += [group(False) + picture(I_), picture(B), picture(P), picture(B)]  # open
    packets += [group(True) + picture(I_), picture(B), picture(I_), picture(B)]  # closed; then an I without a group
    leading = [k for k, data in enumerate(packets) if p.packet(data, False).skipped_leading]
    assert leading == [5, 11]


def test_order_agrees_with_temporal_reference() -> None:
    """Within each group the order is that of temporal_reference (6.3.9)."""
    clip = encode("mpeg2video", "mpegts", b_frames=2)
    rank = {k: place for place, k in enumerate(by_order(clip.infos()))}
    groups: list[list[tuple[int, int]]] = []
    for k, data in enumerate(clip.packets):
        at = data.index(b"\0\0\1\0")
        if data.find(b"\0\0\1\xb8", 0, at) >= 0:
            groups.append([])
        groups[-1].append((int.from_bytes(data[at + 4 : at + 6], "big") >> 6, rank[k]))
    assert len(groups) > 2
    displayed = [place for group_ in groups for _, place in sorted(group_)]
    assert displayed == sorted(displayed)


def test_sequence_header_without_user_data() -> None:
    p = Mpeg12Parser(SEQUENCE + EXTENSION)
    sets = p.parameter_sets
    assert sets == (SEQUENCE + EXTENSION,)
    p.packet(SEQUENCE + EXTENSION + b"\0\0\1\xb2hello" + group(False) + picture(I_), True)
    assert p.parameter_sets is sets
    p.packet(SEQUENCE + picture(I_), True)
    assert p.parameter_sets == (SEQUENCE,)


@pytest.mark.parametrize("data", [b"", b"\0\0\1\0", b"\0\0\1\0\0", picture(4), picture(0), SEQUENCE])
def test_unsure(data: bytes) -> None:
    assert Mpeg12Parser(b"").packet(data, True) is UNSURE
