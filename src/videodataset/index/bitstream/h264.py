"""H.264: NAL unit types, slice headers, recovery points (ITU-T H.264)."""

from __future__ import annotations

from dataclasses import dataclass

from videodataset.index.bitstream.bits import BitReader, TruncatedHeaderError
from videodataset.index.bitstream.h264_sets import (
    PictureParameters,
    SequenceParameters,
    picture_parameters,
    sequence_parameters,
)
from videodataset.index.bitstream.nal import nal_units, payload_of
from videodataset.index.bitstream.packet_info import UNSURE, PacketInfo
from videodataset.index.bitstream.unit_table import UnitTable

_SLICE, _PARTITION_A, _IDR, _SEI, _SPS, _PPS = 1, 2, 5, 6, 7, 8
_RECOVERY_POINT = 6  # SEI payloadType (D.1.8)
_SLICE_HEADER_BYTES = 40  # enough for the fields up to the picture order count


@dataclass(frozen=True, slots=True)
class _Slice:
    frame_num: int
    field: bool
    bottom: bool
    order_lsb: int
    order_delta: int  # delta_pic_order_cnt[0]
    order_delta_bottom: int  # delta_pic_order_cnt_bottom, or delta_pic_order_cnt[1]
    sequence: SequenceParameters


class H264Parser:
    """Packets of avcC (length-prefixed) or annex B streams, whichever the extradata says."""

    def __init__(self, extradata: bytes) -> None:
        self.nal_length_size = 0
        self._table = UnitTable()
        self._sequences: dict[int, SequenceParameters] = {}
        self._pictures: dict[int, PictureParameters] = {}
        self._order = _PictureOrder()
        self._open_field: _Slice | None = None  # a first field whose second has not come
        self.set_extradata(extradata)

    @property
    def parameter_sets(self) -> tuple[bytes, ...]:
        """SPS, then PPS."""
        return self._table.units

    def set_extradata(self, extradata: bytes) -> None:
        """Take avcC (ISO/IEC 14496-15 5.3.3.1) or annex B parameter sets."""
        if len(extradata) > 6 and extradata[0] == 1:
            self.nal_length_size = (extradata[4] & 3) + 1
            at = 5
            for mask in (0x1F, 0xFF):
                if at >= len(extradata):
                    return
                count, at = extradata[at] & mask, at + 1
                for _ in range(count):
                    size = int.from_bytes(extradata[at : at + 2], "big")
                    self._take_set(extradata[at + 2 : at + 2 + size])
                    at += 2 + size
        else:
            for start, stop in nal_units(extradata, 0):
                self._take_set(extradata[start:stop])

    def _take_set(self, unit: bytes) -> None:
        try:
            if unit and unit[0] & 31 == _SPS:
                number, sequence = sequence_parameters(unit)
                self._sequences[number] = sequence
                self._table.put(0, number, unit)
            elif unit and unit[0] & 31 == _PPS:
                number, picture = picture_parameters(unit)
                self._pictures[number] = picture
                self._table.put(1, number, unit)
        except (TruncatedHeaderError, IndexError):
            return  # a damaged set: pictures that name it will be unsure of their order

    def packet(self, data: bytes | memoryview, key_hint: bool) -> PacketInfo:
        """See `Parser.packet`."""
        data = bytes(data)
        idr = recovery = referenced = False
        slices: list[_Slice | None] = []
        try:
            for start, stop in nal_units(data, self.nal_length_size):
                header = data[start]
                kind = header & 31
                if kind in (_SLICE, _PARTITION_A, _IDR):
                    referenced = referenced or header >> 5 != 0
                    idr = idr or kind == _IDR
                    if not slices or (slices[0] is not None and slices[0].field):
                        # A packet of both fields is told by its last slice; of a frame the first slice says all.
                        slices.append(self._slice(data[start : min(stop, start + _SLICE_HEADER_BYTES)]))
                elif kind == _SEI:
                    recovery = recovery or _recovers_at_once(data[start:stop])
                elif kind in (_SPS, _PPS):
                    self._take_set(data[start:stop])
        except TruncatedHeaderError:
            slices = []
        if not slices:
            self._open_field = None
            return UNSURE
        first, last = slices[0], slices[-1]
        if first is None:
            self._open_field = None
            return PacketInfo(sync=idr or recovery, disposable=not referenced)
        both_fields = last is not None and last.field and first.bottom != last.bottom
        second = not idr and not both_fields and self._is_second_field(first)
        self._open_field = first if first.field and not both_fields and not second else None
        order = self._order.next(first, idr, referenced)
        if second:
            return PacketInfo(new_picture=False, disposable=not referenced)
        if both_fields and last is not None:
            self._order.next(last, False, referenced)  # the counts of the next picture continue from the second field
        return PacketInfo(sync=idr or recovery, disposable=not referenced, order=order)

    def _is_second_field(self, now: _Slice) -> bool:
        """ITU-T H.264 7.4.1.2.4: opposite parity, same frame_num."""
        before = self._open_field
        return before is not None and now.field and now.bottom != before.bottom and now.frame_num == before.frame_num

    def _slice(self, unit: bytes) -> _Slice | None:
        """Read a slice header (7.3.3) up to the picture order count; None where its parameter sets are missing.

        Raises:
            TruncatedHeaderError: its parameter sets are there, but the header ends early.
        """
        bits = BitReader(payload_of(unit)[1:])
        bits.ue(), bits.ue()  # first_mb_in_slice, slice_type
        picture = self._pictures.get(bits.ue())
        sequence = self._sequences.get(picture.sequence) if picture else None
        if picture is None or sequence is None:
            return None
        if sequence.separate_planes:
            bits.u(2)
        frame_num = bits.u(sequence.frame_num_bits)
        field = not sequence.frames_only and bits.flag()
        bottom = field and bits.flag()
        if unit[0] & 31 == _IDR:
            bits.ue()  # idr_pic_id
        lsb = delta = delta_bottom = 0
        if sequence.order_type == 0:
            lsb = bits.u(sequence.order_lsb_bits)
            if picture.order_in_slice and not field:
                delta_bottom = bits.se()
        elif sequence.order_type == 1 and not sequence.order_always_zero:
            delta = bits.se()
            if picture.order_in_slice and not field:
                delta_bottom = bits.se()
        return _Slice(frame_num, field, bottom, lsb, delta, delta_bottom, sequence)


def _recovers_at_once(unit: bytes) -> bool:
    """Whether an SEI unit holds a recovery point with recovery_frame_cnt 0 (D.1.8)."""
    data, at = payload_of(unit[:4096]), 1
    while at + 2 < len(data):
        fields = [0, 0]  # payloadType and payloadSize, each a run of 255s and a last byte (7.3.2.3.1)
        for k in (0, 1):
            while at < len(data) and data[at] == 255:
                fields[k], at = fields[k] + 255, at + 1
            if at >= len(data):
                return False
            fields[k], at = fields[k] + data[at], at + 1
        if fields[0] == _RECOVERY_POINT:
            return at < len(data) and data[at] & 0x80 != 0  # ue(v) 0 is a single 1 bit
        at += fields[1]
    return False


class _PictureOrder:
    """Picture order counts (8.2.1); of a frame, the smaller of its two fields'.

    A picture that is no reference leaves prevPicOrderCntMsb as it is (8.2.1.1). MMCO 5 is not followed.
    """

    def __init__(self) -> None:
        self._video_sequence = 0
        self._msb = self._lsb = 0  # of the last reference picture
        self._frame_num = self._frame_num_offset = 0

    def next(self, now: _Slice, idr: bool, referenced: bool) -> tuple[int, int]:
        """Return (coded video sequence, picture order count) of the next picture in decode order."""
        if idr:
            self._video_sequence += 1
            self._msb = self._lsb = self._frame_num = self._frame_num_offset = 0
        order_type = now.sequence.order_type
        count = self._from_lsb(now, referenced) if order_type == 0 else self._from_frame_num(now, idr, referenced)
        return self._video_sequence, count

    def _from_lsb(self, now: _Slice, referenced: bool) -> int:
        span = 1 << now.sequence.order_lsb_bits
        msb = self._msb
        if now.order_lsb < self._lsb and self._lsb - now.order_lsb >= span // 2:
            msb += span
        elif now.order_lsb > self._lsb and now.order_lsb - self._lsb > span // 2:
            msb -= span
        if referenced:
            self._msb, self._lsb = msb, now.order_lsb
        return msb + now.order_lsb + min(0, now.order_delta_bottom)

    def _from_frame_num(self, now: _Slice, idr: bool, referenced: bool) -> int:
        sequence = now.sequence
        if not idr and self._frame_num > now.frame_num:
            self._frame_num_offset += 1 << sequence.frame_num_bits
        self._frame_num = now.frame_num
        number = self._frame_num_offset + now.frame_num
        if sequence.order_type == 2:
            return 2 * number - (not referenced)
        cycle = sequence.cycle_offsets
        number = number if cycle else 0
        if not referenced and number > 0:
            number -= 1
        expected = 0
        if number > 0:
            whole, rest = divmod(number - 1, len(cycle))
            expected = whole * sum(cycle) + sum(cycle[: rest + 1])
        if not referenced:
            expected += sequence.offset_for_non_ref
        count = expected + now.order_delta
        if now.field:
            return count + now.bottom * sequence.offset_top_to_bottom
        return count + min(0, sequence.offset_top_to_bottom + now.order_delta_bottom)
