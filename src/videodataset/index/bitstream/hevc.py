"""HEVC: NAL unit types, temporal layers, picture order counts (ITU-T H.265)."""

from __future__ import annotations

from dataclasses import dataclass

from videodataset.index.bitstream.bits import BitReader, TruncatedHeaderError
from videodataset.index.bitstream.nal import nal_units, payload_of
from videodataset.index.bitstream.packet_info import UNSURE, PacketInfo
from videodataset.index.bitstream.unit_table import UnitTable

# nal_unit_type, table 7-1
_RASL = (8, 9)
_RADL_OR_RASL = (6, 7, 8, 9)
_BLA, _IDR, _CRA = (16, 17, 18), (19, 20), 21
_VPS, _SPS, _PPS = 32, 33, 34
_END_OF_SEQUENCE, _END_OF_BITSTREAM = 36, 37
_LAST_SUB_LAYER_NON_REFERENCE = 14  # the even types up to it
_SLICE_HEADER_BYTES = 40
_SPS_BYTES = 256  # up to log2_max_pic_order_cnt_lsb_minus4; bounds the time a damaged set costs


@dataclass(frozen=True, slots=True)
class _Picture:
    sequence: int
    extra_bits: int
    output_flag: bool


@dataclass(frozen=True, slots=True)
class _Sequence:
    separate_planes: bool
    order_lsb_bits: int


class HevcParser:
    """Packets of hvcC (length-prefixed) or annex B streams, whichever the extradata says. Base layer only."""

    def __init__(self, extradata: bytes) -> None:
        self.nal_length_size = 0
        self._table = UnitTable()
        self._sequences: dict[int, _Sequence] = {}
        self._pictures: dict[int, _Picture] = {}
        self._video_sequence = 0
        # PicOrderCntVal of prevTid0Pic: the last picture of layer 0, no RASL, RADL or sub-layer non-reference (8.3.1)
        self._previous = 0
        self._first = True  # the next picture is the first of the stream, or after an end of sequence
        self.set_extradata(extradata)

    @property
    def parameter_sets(self) -> tuple[bytes, ...]:
        """VPS, then SPS, then PPS."""
        return self._table.units

    def set_extradata(self, extradata: bytes) -> None:
        """Take hvcC (ISO/IEC 14496-15 8.3.3.1) or annex B parameter sets."""
        # As FFmpeg tells them apart: hvcC written before the standard was final has version 0.
        if len(extradata) > 22 and (extradata[0] or extradata[1] or extradata[2] > 1):
            self.nal_length_size = (extradata[21] & 3) + 1
            at = 23
            for _ in range(extradata[22]):
                count, at = int.from_bytes(extradata[at + 1 : at + 3], "big"), at + 3
                for _ in range(count):
                    size = int.from_bytes(extradata[at : at + 2], "big")
                    self._take_set(extradata[at + 2 : at + 2 + size])
                    at += 2 + size
                    if at > len(extradata):
                        return
        else:
            for start, stop in nal_units(extradata, 0):
                self._take_set(extradata[start:stop])

    def _take_set(self, unit: bytes) -> None:
        if len(unit) < 3 or _layer_id(unit):
            return
        kind = (unit[0] >> 1) & 63
        try:
            if kind == _VPS:
                self._table.put(0, unit[2] >> 4, unit)
            elif kind == _SPS:
                number, sequence = _sequence_parameters(unit)
                self._sequences[number] = sequence
                self._table.put(1, number, unit)
            elif kind == _PPS:
                number, picture = _picture_parameters(unit)
                self._pictures[number] = picture
                self._table.put(2, number, unit)
        except TruncatedHeaderError:
            return  # a damaged set: pictures that name it will be unsure of their order

    def packet(self, data: bytes | memoryview, key_hint: bool) -> PacketInfo:
        """See `Parser.packet`."""
        data = bytes(data)
        kinds: list[int] = []
        first_slice = b""
        ended = False
        for start, stop in nal_units(data, self.nal_length_size):
            if stop - start < 2 or _layer_id(data[start : start + 2]):
                continue
            kind = (data[start] >> 1) & 63
            if kind <= _CRA:
                if not kinds:
                    first_slice = data[start : min(stop, start + _SLICE_HEADER_BYTES)]
                kinds.append(kind)
            elif _VPS <= kind <= _PPS:
                self._take_set(data[start:stop])
            elif kind in (_END_OF_SEQUENCE, _END_OF_BITSTREAM):
                if kinds:
                    ended = True
                else:
                    self._first = True
        if not kinds or any(9 < kind < 16 for kind in kinds):  # none, or reserved types
            return UNSURE
        kind = kinds[0]
        disposable = all(k <= _LAST_SUB_LAYER_NON_REFERENCE and k % 2 == 0 for k in kinds)
        layer = max(0, (first_slice[1] & 7) - 1)
        try:
            order, shown = self._order(first_slice, kind, layer, disposable)
        except TruncatedHeaderError:
            return UNSURE
        finally:
            self._first = ended
        return PacketInfo(
            sync=kind >= _BLA[0],
            shown=shown,
            disposable=disposable,
            temporal_layer=layer,
            skipped_leading=kind in _RASL,
            order=order,
        )

    def _order(self, unit: bytes, kind: int, layer: int, disposable: bool) -> tuple[tuple[int, int] | None, bool]:
        """Return ((coded video sequence, PicOrderCntVal) by 8.3.1, pic_output_flag) from a slice header (7.3.6.1).

        The order is None where the slice's parameter sets are missing.

        Raises:
            TruncatedHeaderError: the header ends early, or is not that of a picture's first slice.
        """
        restarts = kind in _IDR or kind in _BLA or (kind == _CRA and self._first)
        if restarts:
            self._video_sequence += 1
        bits = BitReader(payload_of(unit)[2:])
        if not bits.flag():  # first_slice_segment_in_pic_flag
            raise TruncatedHeaderError
        if kind >= _BLA[0]:
            bits.u(1)  # no_output_of_prior_pics_flag
        picture = self._pictures.get(bits.ue())
        sequence = self._sequences.get(picture.sequence) if picture else None
        if picture is None or sequence is None:
            return None, True
        bits.u(picture.extra_bits)
        bits.ue()  # slice_type
        shown = bits.flag() if picture.output_flag else True
        if sequence.separate_planes:
            bits.u(2)
        count = 0 if kind in _IDR else self._count(bits.u(sequence.order_lsb_bits), sequence, restarts)
        if layer == 0 and kind not in _RADL_OR_RASL and not disposable:
            self._previous = count
        return (self._video_sequence, count), shown

    def _count(self, lsb: int, sequence: _Sequence, restarts: bool) -> int:
        if restarts:
            return lsb
        span = 1 << sequence.order_lsb_bits
        previous_lsb = self._previous % span
        msb = self._previous - previous_lsb
        if lsb < previous_lsb and previous_lsb - lsb >= span // 2:
            msb += span
        elif lsb > previous_lsb and lsb - previous_lsb > span // 2:
            msb -= span
        return msb + lsb


def _layer_id(unit: bytes) -> int:
    """nuh_layer_id (7.3.1.2)."""
    return (unit[0] & 1) << 5 | unit[1] >> 3


def _sequence_parameters(unit: bytes) -> tuple[int, _Sequence]:
    """Read an SPS (7.3.2.2) up to the size of the picture order count; return (its number, fields)."""
    bits = BitReader(payload_of(unit[:_SPS_BYTES])[2:])
    bits.u(4)
    sub_layers = bits.u(3)
    bits.u(1)
    bits.u(96)  # profile_tier_level (7.3.3): general profile and level
    present = [(bits.flag(), bits.flag()) for _ in range(sub_layers)]
    if sub_layers:
        bits.u(2 * (8 - sub_layers))
    for profile, level in present:
        bits.u(88 * profile + 8 * level)
    number = bits.ue()
    separate = bits.ue() == 3 and bits.flag()
    bits.ue(), bits.ue()
    if bits.flag():
        for _ in range(4):
            bits.ue()
    bits.ue(), bits.ue()
    order_lsb_bits = bits.ue() + 4
    if number > 15 or order_lsb_bits > 16:  # 7.4.3.2.1
        raise TruncatedHeaderError
    return number, _Sequence(separate, order_lsb_bits)


def _picture_parameters(unit: bytes) -> tuple[int, _Picture]:
    """Read the first fields of a PPS (7.3.2.3); return (its number, fields)."""
    bits = BitReader(payload_of(unit[:16])[2:])
    number, sequence = bits.ue(), bits.ue()
    if number > 63 or sequence > 15:  # 7.4.3.3.1
        raise TruncatedHeaderError
    bits.u(1)  # dependent_slice_segments_enabled_flag
    output = bits.flag()
    return number, _Picture(sequence, bits.u(3), output)
