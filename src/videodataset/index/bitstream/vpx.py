"""VP8 and VP9: the first bits of the frame header.

Nothing is disposable: probabilities, and in VP9 segmentation and the motion vectors of the last decoded frame too,
carry over from every frame, whether or not it is a reference.
"""

from __future__ import annotations

from videodataset.index.bitstream.bits import BitReader, TruncatedHeaderError
from videodataset.index.bitstream.packet_info import UNSURE, PacketInfo


class Vp8Parser:
    """RFC 6386 section 9.1: bit 0 clear = key frame, bit 4 = show_frame."""

    nal_length_size = 0
    parameter_sets: tuple[bytes, ...] = ()

    def set_extradata(self, extradata: bytes) -> None:
        """VP8 has none."""

    def packet(self, data: bytes, key_hint: bool) -> PacketInfo:
        """See `Parser.packet`."""
        if len(data) < 3:
            return UNSURE
        return PacketInfo(sync=not data[0] & 1, shown=bool(data[0] & 0x10))


class Vp9Parser:
    """VP9 bitstream specification 6.2 and annex B (superframes)."""

    nal_length_size = 0
    parameter_sets: tuple[bytes, ...] = ()

    def set_extradata(self, extradata: bytes) -> None:
        """Profile and level only."""

    def packet(self, data: bytes, key_hint: bool) -> PacketInfo:
        """See `Parser.packet`. A superframe holds hidden frames and at most one shown one."""
        try:
            frames = [_vp9_frame(data[start:stop]) for start, stop in _superframe(data)]
        except (TruncatedHeaderError, ValueError):
            return UNSURE
        return PacketInfo(sync=frames[0][0], shown=any(shown for _, shown in frames))


def _superframe(data: bytes) -> list[tuple[int, int]]:
    """Annex B: the last byte, 110xxxxx, repeated at the front of the index, gives count and size of the frame sizes."""
    marker = data[-1] if data else 0
    if marker & 0xE0 == 0xC0:
        count, size_bytes = (marker & 7) + 1, ((marker >> 3) & 3) + 1
        index_bytes = 2 + count * size_bytes
        if len(data) >= index_bytes and data[-index_bytes] == marker:
            at, out = 0, []
            for k in range(count):
                place = len(data) - index_bytes + 1 + k * size_bytes
                size = int.from_bytes(data[place : place + size_bytes], "little")
                if size:
                    out.append((at, at + size))
                at += size
            if out:
                return out
    return [(0, len(data))]


def _vp9_frame(data: bytes) -> tuple[bool, bool]:
    """Return (key frame, shown)."""
    bits = BitReader(data[:4])
    if bits.u(2) != 2:  # frame_marker
        raise ValueError
    profile = bits.u(1) + 2 * bits.u(1)
    if profile == 3:
        bits.u(1)
    if bits.flag():  # show_existing_frame
        return False, True
    key = not bits.flag()
    return key, bits.flag()
