"""AV1: temporal units, frame headers up to refresh_frame_flags (AV1 bitstream specification 5.5, 5.9.2)."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from videodataset.index.bitstream.bits import BitReader, TruncatedHeaderError
from videodataset.index.bitstream.packet_info import UNSURE, PacketInfo

_SEQUENCE_HEADER, _FRAME_HEADER, _FRAME = 1, 3, 6
_KEY, _INTRA_ONLY, _SWITCH = 0, 2, 3
_SELECT = 2  # SELECT_SCREEN_CONTENT_TOOLS, SELECT_INTEGER_MV
_ALL_SLOTS = 0xFF
_HEADER_BYTES = 256  # up to refresh_frame_flags, with a removal time for each of 32 operating points


@dataclass(frozen=True, slots=True)
class _Sequence:
    reduced: bool
    model_info: bool
    equal_interval: bool
    presentation_time_bits: int
    removal_time_bits: int
    operating_points: tuple[tuple[int, bool], ...]  # (operating_point_idc, has a decoder model)
    frame_id_bits: int
    order_hint_bits: int
    screen_content: int
    integer_mv: int


class Av1Parser:
    """One temporal unit per packet: hidden frames and one that is shown."""

    nal_length_size = 0

    def __init__(self, extradata: bytes) -> None:
        self.parameter_sets: tuple[bytes, ...] = ()
        self._sequence: _Sequence | None = None
        self._slot_is_key = [False] * 8
        self.set_extradata(extradata)

    def set_extradata(self, extradata: bytes) -> None:
        """Take av1C: four bytes, then OBUs (AV1 in ISOBMFF 2.3.3), or bare OBUs."""
        self._take_sequence(extradata[4:] if extradata[:1] == b"\x81" else extradata)

    def _take_sequence(self, data: bytes) -> None:
        try:
            for kind, start, body, stop, _ in _obus(data):
                if kind == _SEQUENCE_HEADER and self.parameter_sets != (data[start:stop],):
                    self._sequence = _sequence_header(data[body:stop])
                    self.parameter_sets = (data[start:stop],)
        except (TruncatedHeaderError, IndexError):
            return

    def packet(self, data: bytes | memoryview, key_hint: bool) -> PacketInfo:
        """See `Parser.packet`."""
        data = bytes(data)
        sync = shown = refreshes = False
        frames = 0
        try:
            for kind, start, body, stop, extension in _obus(data):
                if kind == _SEQUENCE_HEADER and self.parameter_sets != (data[start:stop],):
                    self._sequence = _sequence_header(data[body:stop])
                    self.parameter_sets = (data[start:stop],)
                elif kind in (_FRAME_HEADER, _FRAME):
                    key, visible, slots = self._frame(data[body : min(stop, body + _HEADER_BYTES)], extension)
                    sync = sync or (key and visible and not frames)
                    shown = shown or visible
                    refreshes = refreshes or slots != 0
                    frames += 1
        except (TruncatedHeaderError, IndexError):
            frames = 0
        if not frames:
            self._slot_is_key = [True] * 8  # unknown now: to show any slot again may refresh
            return UNSURE
        return PacketInfo(sync=sync, shown=shown, disposable=not refreshes)

    def _frame(self, header: bytes, extension: int) -> tuple[bool, bool, int]:
        """Return (key frame, shown, refresh_frame_flags) of a frame header (5.9.2)."""
        sequence = self._sequence
        if sequence is None:
            raise TruncatedHeaderError
        bits = BitReader(header)
        if sequence.reduced:
            return True, True, _ALL_SLOTS
        if bits.flag():  # show_existing_frame: showing a key frame loads it into every slot (7.21)
            if not self._slot_is_key[bits.u(3)]:
                return False, True, 0
            self._slot_is_key = [True] * 8
            return False, True, _ALL_SLOTS
        frame_type, shown = bits.u(2), bits.flag()
        if shown and sequence.model_info and not sequence.equal_interval:
            bits.u(sequence.presentation_time_bits)
        if not shown:
            bits.u(1)  # showable_frame
        key = frame_type == _KEY
        error_resilient = frame_type == _SWITCH or (key and shown) or bits.flag()
        if (key and shown) or frame_type == _SWITCH:
            slots = _ALL_SLOTS
        else:
            slots = self._refresh_flags(bits, sequence, frame_type, error_resilient, extension)
        for k in range(8):
            if slots >> k & 1:
                self._slot_is_key[k] = key
        return key, shown, slots

    @staticmethod
    def _refresh_flags(
        bits: BitReader, sequence: _Sequence, frame_type: int, error_resilient: bool, extension: int
    ) -> int:
        """5.9.2 from disable_cdf_update to refresh_frame_flags."""
        bits.u(1)
        tools = bits.u(1) if sequence.screen_content == _SELECT else sequence.screen_content
        if tools and sequence.integer_mv == _SELECT:
            bits.u(1)
        if sequence.frame_id_bits:
            bits.u(sequence.frame_id_bits)
        bits.u(1)  # frame_size_override_flag; a switch frame does not come here
        bits.u(sequence.order_hint_bits)
        if not (frame_type in (_KEY, _INTRA_ONLY) or error_resilient):
            bits.u(3)  # primary_ref_frame
        if sequence.model_info and bits.flag():  # buffer_removal_time_present_flag
            temporal, spatial = extension >> 5, extension >> 3 & 3
            for idc, has_model in sequence.operating_points:
                if has_model and (not idc or (idc >> temporal & 1 and idc >> (spatial + 8) & 1)):
                    bits.u(sequence.removal_time_bits)
        return bits.u(8)


def _obus(data: bytes) -> Iterator[tuple[int, int, int, int, int]]:
    """Give (obu_type, start, start of payload, stop, obu_extension_header or 0) of each OBU (5.3)."""
    at = 0
    while at < len(data):
        start, header = at, data[at]
        extension = data[at + 1] if header & 4 else 0
        at += 2 if header & 4 else 1
        size = len(data) - at
        if header & 2:
            size = shift = 0
            while True:  # leb128 (4.10.5)
                byte, at = data[at], at + 1
                size |= (byte & 0x7F) << shift
                shift += 7
                if not byte & 0x80 or shift > 56:
                    break
        yield (header >> 3) & 15, start, at, min(at + size, len(data)), extension
        at += size


def _sequence_header(payload: bytes) -> _Sequence:
    """5.5.1, up to order_hint_bits."""
    bits = BitReader(payload[:512])
    bits.u(4)  # seq_profile, still_picture
    reduced = bits.flag()
    model_info = equal_interval = False
    time_bits = removal_bits = 0
    points: list[tuple[int, bool]] = []
    if reduced:
        bits.u(5)
    else:
        if bits.flag():  # timing_info
            bits.u(64)
            equal_interval = bits.flag()
            if equal_interval:
                bits.ue()  # uvlc (4.10.3) is the same code
            model_info = bits.flag()
            if model_info:
                delay_bits = bits.u(5) + 1
                bits.u(32)
                removal_bits = bits.u(5) + 1
                time_bits = bits.u(5) + 1
        display_delay = bits.flag()
        for _ in range(bits.u(5) + 1):
            idc = bits.u(12)
            if bits.u(5) > 7:
                bits.u(1)  # seq_tier
            has_model = model_info and bits.flag()
            if has_model:
                bits.u(2 * delay_bits + 1)
            points.append((idc, has_model))
            if display_delay and bits.flag():
                bits.u(4)
    width_bits, height_bits = bits.u(4) + 1, bits.u(4) + 1
    bits.u(width_bits + height_bits)
    frame_id_bits = 0
    if not reduced and bits.flag():
        frame_id_bits = bits.u(4) + 2 + bits.u(3) + 1
    bits.u(3)
    if reduced:
        return _Sequence(True, False, False, 0, 0, (), 0, 0, _SELECT, _SELECT)
    bits.u(4)
    order_hint = bits.flag()
    if order_hint:
        bits.u(2)
    screen = _SELECT if bits.flag() else bits.u(1)
    integer_mv = _SELECT
    if screen:
        integer_mv = _SELECT if bits.flag() else bits.u(1)
    hint_bits = bits.u(3) + 1 if order_hint else 0
    return _Sequence(
        False,
        model_info,
        equal_interval,
        time_bits,
        removal_bits,
        tuple(points),
        frame_id_bits,
        hint_bits,
        screen,
        integer_mv,
    )
