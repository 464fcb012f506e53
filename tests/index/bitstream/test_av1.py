"""AV1 headers written by hand (AV1 bitstream specification 5.5, 5.9.2)."""

from __future__ import annotations

import pytest
from encoded_clips import bits, encode

from videodataset.index.bitstream.av1 import Av1Parser
from videodataset.index.bitstream.packet_info import UNSURE, PacketInfo

KEY, INTER, INTRA_ONLY, SWITCH = 0, 1, 2, 3


def obu(kind: int, payload: bytes, extension: int | None = None) -> bytes:
    head = bytes([kind << 3 | 2]) if extension is None else bytes([kind << 3 | 6, extension])
    return head + bytes([len(payload)]) + payload


def sequence(model: bool = False, frame_ids: bool = False, idcs: tuple[int, ...] = (0,), hint_bits: int = 7) -> bytes:
    """5.5.1; with a decoder model: buffer_removal_time and frame_presentation_time of 10 bits each."""
    timing = "1" + f"{1:032b}{25:032b}" + "0" + "1" + f"{9:05b}{1:032b}{9:05b}{9:05b}" if model else "0"
    points = "".join(
        f"{idc:012b}{8:05b}0" + (("1" + "0" * 10 + "0" * 10 + "0") if model and k % 2 == 0 else "0" if model else "")
        for k, idc in enumerate(idcs)
    )
    ids = "1" + f"{3:04b}{2:03b}" if frame_ids else "0"  # delta 5 bits, id 8 bits
    tools = "000" + "0000" + "1" + "00" + "1" + "1" + f"{hint_bits - 1:03b}"
    return obu(
        1, bits("00000" + timing + "0" + f"{len(idcs) - 1:05b}" + points, (6, 4), (6, 4), (63, 7), (63, 7), ids + tools)
    )


def frame(
    kind: int,
    refresh: int = 0,
    shown: int = 1,
    *,
    resilient: int = 0,
    model: str = "",
    time: str = "",
    frame_id: str = "",
    extension: int | None = None,
    screen: str = "0",
) -> bytes:
    text = "0" + f"{kind:02b}{shown}" + (time if shown else "1")
    if not (kind == SWITCH or (kind == KEY and shown)):
        text += str(resilient)
    text += "0" + screen + frame_id + ("" if kind == SWITCH else "0") + "0" * 7
    if kind == INTER and not resilient:
        text += "000"
    text += model
    if not (kind == SWITCH or (kind == KEY and shown)):
        text += f"{refresh:08b}"
    return obu(6, bits(text), extension)


def show_existing(slot: int) -> bytes:
    return obu(3, bits("1", (slot, 3)))


def facts(info: PacketInfo) -> tuple[bool, bool, bool]:
    assert not info.unsure
    return info.sync, info.shown, info.disposable


def test_frame_types() -> None:
    p = Av1Parser(sequence())
    assert facts(p.packet(frame(KEY), False)) == (True, True, False)
    assert facts(p.packet(frame(INTER, 0), True)) == (False, True, True)
    assert facts(p.packet(frame(INTER, 8), False)) == (False, True, False)
    assert facts(p.packet(frame(INTER, 0, resilient=1), False)) == (False, True, True)
    assert facts(p.packet(frame(INTRA_ONLY, 4), True)) == (False, True, False)
    assert facts(p.packet(frame(SWITCH), False)) == (False, True, False)
    assert facts(p.packet(frame(KEY, 1, shown=0), True)) == (False, False, False)


def test_hidden_and_shown_frames_in_one_unit() -> None:
    p = Av1Parser(sequence())
    assert facts(p.packet(frame(INTER, 4, shown=0) + frame(INTER, 0), False)) == (False, True, False)
    assert facts(p.packet(frame(INTER, 0, shown=0) + frame(INTER, 0), False)) == (False, True, True)
    assert facts(p.packet(frame(INTER, 4, shown=0), False)) == (False, False, False)


def test_showing_a_frame_again_refreshes_only_when_it_is_a_key_frame() -> None:
    """7.21: a key frame shown again is loaded into every slot."""
    p = Av1Parser(sequence())
    p.packet(frame(KEY), True)
    p.packet(frame(INTER, 0xFF), False)
    p.packet(frame(KEY, 0b100, shown=0), False)
    assert facts(p.packet(show_existing(1), True)) == (False, True, True)
    assert facts(p.packet(show_existing(2), True)) == (False, True, False)
    assert facts(p.packet(show_existing(1), True)) == (False, True, False), "slot 1 holds the key frame now"
    p.packet(frame(INTER, 0b010), False)
    assert facts(p.packet(show_existing(1), True)) == (False, True, True)


def test_after_damage_any_slot_may_hold_a_key_frame() -> None:
    p = Av1Parser(sequence())
    p.packet(frame(INTER, 0xFF), False)
    assert p.packet(b"\x32", False) is UNSURE
    assert facts(p.packet(show_existing(1), False)) == (False, True, False)


def test_frame_ids_and_screen_content() -> None:
    p = Av1Parser(sequence(frame_ids=True))
    assert facts(p.packet(frame(INTER, 0, frame_id="1" * 8, screen="11"), False)) == (False, True, True)
    assert facts(p.packet(frame(INTER, 1, frame_id="0" * 8), False)) == (False, True, False)


def test_decoder_model() -> None:
    """A presentation time in shown frames; removal times of the operating points with a model that hold the frame."""
    time, removal = "1" * 10, "1" * 10
    p = Av1Parser(sequence(model=True))
    assert facts(p.packet(frame(INTER, 0, time=time, model="0"), False)) == (False, True, True)
    assert facts(p.packet(frame(INTER, 0, time=time, model="1" + removal), False)) == (False, True, True)
    assert facts(p.packet(frame(INTER, 0, shown=0, model="1" + removal), False)) == (False, False, True)
    layered = Av1Parser(sequence(model=True, idcs=(0x103, 0x103, 0x101)))  # points 0 and 2 have a model
    for temporal, removals in ((0, 2), (1, 1)):
        unit = frame(INTER, 0, time=time, model="1" + removal * removals, extension=temporal << 5)
        assert facts(layered.packet(unit, False)) == (False, True, True)


def test_reduced_still_picture_header() -> None:
    still = obu(1, bits("00011" + "00000", (6, 4), (6, 4), (63, 7), (63, 7), "000" + "0" * 10))
    assert facts(Av1Parser(still).packet(obu(6, b"\x10\0"), False)) == (True, True, False)


def test_sequence_header_of_av1c_and_of_the_stream() -> None:
    clip = encode("libsvtav1", "mp4", (("preset", "10"), ("crf", "35")), gop=16)
    p = clip.parser()
    (header,) = p.parameter_sets
    assert (header[0] >> 3) & 15 == 1
    assert header == clip.extradata[4:]
    p.packet(sequence(hint_bits=5) + frame(KEY), True)
    assert p.parameter_sets == (sequence(hint_bits=5),)


@pytest.mark.parametrize("data", [b"", b"\x12\0", b"\x32", b"\x32\x01", frame(INTER)[:4], obu(6, b"")])
def test_unsure(data: bytes) -> None:
    assert Av1Parser(sequence()).packet(data, True) is UNSURE
    assert Av1Parser(b"").packet(frame(KEY), True) is UNSURE, "no sequence header"
