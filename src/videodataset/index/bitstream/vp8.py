"""VP8: the frame tag (RFC 6386 9.1).

Nothing is disposable: probabilities persist from frame to frame (9.9 to 9.11), whether or not a frame is a reference.
"""

from __future__ import annotations

from videodataset.index.bitstream.packet_info import UNSURE, PacketInfo

_KEY_START_CODE = b"\x9d\x01\x2a"


class Vp8Parser:
    """One frame per packet."""

    nal_length_size = 0
    parameter_sets: tuple[bytes, ...] = ()

    def set_extradata(self, extradata: bytes) -> None:
        """VP8 has none."""

    def packet(self, data: bytes | memoryview, key_hint: bool) -> PacketInfo:
        """See `Parser.packet`. Bit 0 clear = key frame, bit 4 = show_frame."""
        if len(data) < 3:
            return UNSURE
        key = not data[0] & 1
        if key and bytes(data[3:6]) != _KEY_START_CODE:
            return UNSURE
        return PacketInfo(sync=key, shown=bool(data[0] & 0x10))
