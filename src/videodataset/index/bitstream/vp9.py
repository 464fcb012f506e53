"""VP9: superframes and the first bits of the frame header (VP9 bitstream specification annex B, 6.2).

Nothing is disposable: entropy contexts, segmentation, and the motion vectors of the last decoded frame carry over from
every frame, whether or not it is a reference. A packet that only shows an existing frame counts as not disposable too.
"""

from __future__ import annotations

from videodataset.index.bitstream.bits import BitReader, TruncatedHeaderError
from videodataset.index.bitstream.packet_info import UNSURE, PacketInfo

_FRAME_MARKER, _KEY_SYNC_CODE = 2, 0x498342
_HEADER_BYTES = 8


class Vp9Parser:
    """One superframe per packet: hidden frames and at most one that is shown; or a single frame."""

    nal_length_size = 0
    parameter_sets: tuple[bytes, ...] = ()

    def set_extradata(self, extradata: bytes) -> None:
        """Profile and level only."""

    def packet(self, data: bytes | memoryview, key_hint: bool) -> PacketInfo:
        """See `Parser.packet`."""
        try:
            frames = [_frame(data[start : min(stop, start + _HEADER_BYTES)]) for start, stop in _superframe(data)]
        except TruncatedHeaderError:
            return UNSURE
        return PacketInfo(sync=frames[0][0], shown=any(shown for _, shown in frames))


def _superframe(data: bytes | memoryview) -> list[tuple[int, int]]:
    """Return (start, stop) of each frame of a packet.

    Annex B: the last byte, 110xxxxx, repeated at the front of the index, gives count and size of the frame sizes.
    """
    marker = data[-1] if len(data) else 0
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


def _frame(header: bytes | memoryview) -> tuple[bool, bool]:
    """Return (key frame, shown) of an uncompressed header (6.2)."""
    bits = BitReader(header)
    if bits.u(2) != _FRAME_MARKER:
        raise TruncatedHeaderError
    profile = bits.u(1) + 2 * bits.u(1)
    if profile == 3:
        bits.u(1)
    if bits.flag():  # show_existing_frame
        return False, True
    key, shown = not bits.flag(), bits.flag()
    bits.u(1)  # error_resilient_mode
    if key and bits.u(24) != _KEY_SYNC_CODE:
        raise TruncatedHeaderError
    return key, shown
