"""What the headers of a compressed picture tell, without decoding it. One file per codec family."""

from videodataset.index.bitstream.packet_info import PacketInfo
from videodataset.index.bitstream.parser import Parser, make_parser

__all__ = ["PacketInfo", "Parser", "make_parser"]
