"""What every codec's parser offers, and which parser serves which codec."""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol

from videodataset.index.bitstream.av1 import Av1Parser
from videodataset.index.bitstream.h264 import H264Parser
from videodataset.index.bitstream.hevc import HevcParser
from videodataset.index.bitstream.intra import IntraParser
from videodataset.index.bitstream.mpeg4 import Mpeg4Parser
from videodataset.index.bitstream.mpeg12 import Mpeg12Parser
from videodataset.index.bitstream.packet_info import PacketInfo
from videodataset.index.bitstream.vp8 import Vp8Parser
from videodataset.index.bitstream.vp9 import Vp9Parser


class Parser(Protocol):
    """Reads the packets of one stream, in decode order; damage gives `PacketInfo.unsure`, never an exception."""

    @property
    def nal_length_size(self) -> int:
        """Bytes of the length before each NAL unit; 0 = start codes, or no NAL units."""

    @property
    def parameter_sets(self) -> tuple[bytes, ...]:
        """The units in force now, unframed: the container's, replaced by those met in packets.

        The same object until they change.
        """

    def set_extradata(self, extradata: bytes) -> None:
        """Take a new codec configuration, as containers give in the middle of a stream."""

    def packet(self, data: bytes | memoryview, key_hint: bool) -> PacketInfo:
        """Read the headers of the next packet; `key_hint` is the container's key flag."""


def make_parser(codec_name: str, extradata: bytes | None, intra_only: bool) -> Parser | None:
    """Return the parser of a codec by FFmpeg's name, None where there is none."""
    if intra_only:
        return IntraParser()
    data = extradata or b""
    makers: dict[str, Callable[[], Parser]] = {
        "h264": lambda: H264Parser(data),
        "hevc": lambda: HevcParser(data),
        "av1": lambda: Av1Parser(data),
        "vp8": Vp8Parser,
        "vp9": Vp9Parser,
        "mpeg1video": lambda: Mpeg12Parser(data),
        "mpeg2video": lambda: Mpeg12Parser(data),
        "mpeg4": lambda: Mpeg4Parser(data),
        "mjpeg": IntraParser,
    }
    return makers[codec_name]() if codec_name in makers else None
