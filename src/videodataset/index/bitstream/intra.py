"""Codecs whose every picture stands alone: MJPEG, ProRes, DNxHD, and the like."""

from __future__ import annotations

from videodataset.index.bitstream.packet_info import PacketInfo

_ALONE = PacketInfo(sync=True, disposable=True)


class IntraParser:
    """Needs no header at all."""

    nal_length_size = 0
    parameter_sets: tuple[bytes, ...] = ()

    def set_extradata(self, extradata: bytes) -> None:
        """Nothing in it matters here."""

    def packet(self, data: bytes | memoryview, key_hint: bool) -> PacketInfo:
        """Every packet is a sync picture nobody refers to."""
        return _ALONE
