"""The fields of H.264 parameter sets that slice headers depend on (ITU-T H.264 7.3.2.1, 7.3.2.2)."""

from __future__ import annotations

from dataclasses import dataclass

from videodataset.index.bitstream.bits import BitReader, TruncatedHeaderError
from videodataset.index.bitstream.nal import payload_of

_PROFILES_WITH_CHROMA = (100, 110, 122, 244, 44, 83, 86, 118, 128, 138, 139, 134, 135)
_SPS_BYTES = 4096  # more than the longest scaling lists and order cycle take; bounds the time a damaged set costs


@dataclass(frozen=True, slots=True)
class SequenceParameters:
    """Of one SPS."""

    separate_planes: bool
    frame_num_bits: int
    order_type: int
    order_lsb_bits: int
    order_always_zero: bool
    offset_for_non_ref: int
    offset_top_to_bottom: int
    cycle_offsets: tuple[int, ...]
    frames_only: bool


@dataclass(frozen=True, slots=True)
class PictureParameters:
    """Of one PPS."""

    sequence: int
    order_in_slice: bool


def sequence_parameters(unit: bytes) -> tuple[int, SequenceParameters]:
    """Return (seq_parameter_set_id, fields).

    Raises:
        TruncatedHeaderError: cut short, or a field is out of the range 7.4.2.1.1 gives it.
    """
    bits = BitReader(payload_of(unit[:_SPS_BYTES])[1:])
    profile = bits.u(8)
    bits.u(16)
    number = bits.ue()
    separate = False
    if profile in _PROFILES_WITH_CHROMA:
        chroma = bits.ue()
        separate = chroma == 3 and bits.flag()
        bits.ue(), bits.ue()
        bits.u(1)
        if bits.flag():
            for k in range(12 if chroma == 3 else 8):
                if bits.flag():
                    _skip_scaling_list(bits, 16 if k < 6 else 64)
    frame_num_bits = bits.ue() + 4
    order_type = bits.ue()
    lsb_bits, always_zero, non_ref, top_to_bottom, cycle = 0, False, 0, 0, tuple[int, ...]()
    if order_type == 0:
        lsb_bits = bits.ue() + 4
    elif order_type == 1:
        always_zero = bits.flag()
        non_ref, top_to_bottom = bits.se(), bits.se()
        cycle = tuple(bits.se() for _ in range(min(bits.ue(), 255)))
    bits.ue(), bits.u(1), bits.ue(), bits.ue()
    if number > 31 or frame_num_bits > 16 or order_type > 2 or lsb_bits > 16:
        raise TruncatedHeaderError
    return number, SequenceParameters(
        separate, frame_num_bits, order_type, lsb_bits, always_zero, non_ref, top_to_bottom, cycle, bits.flag()
    )


def _skip_scaling_list(bits: BitReader, size: int) -> None:
    """ITU-T H.264 7.3.2.1.1.1."""
    last = following = 8
    for _ in range(size):
        if following:
            following = (last + bits.se() + 256) % 256
        last = following or last


def picture_parameters(unit: bytes) -> tuple[int, PictureParameters]:
    """Return (pic_parameter_set_id, fields); raises as `sequence_parameters` does (7.4.2.2)."""
    bits = BitReader(payload_of(unit[:16])[1:])
    number, sequence = bits.ue(), bits.ue()
    if number > 255 or sequence > 31:
        raise TruncatedHeaderError
    bits.u(1)  # entropy_coding_mode_flag
    return number, PictureParameters(sequence, bits.flag())
