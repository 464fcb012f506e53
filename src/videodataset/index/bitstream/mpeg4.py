"""MPEG-4 part 2: VOL and VOP headers (ISO/IEC 14496-2 6.2)."""

from __future__ import annotations

from videodataset.index.bitstream.display_order import DisplayOrder
from videodataset.index.bitstream.packet_info import UNSURE, PacketInfo

_VOP = b"\0\0\1\xb6"
_CONFIGURATION = (0xB0, 0xB5)  # visual_object_sequence, visual_object; and 0x00-0x2F: video_object and its layer
_I, _P, _B = 0, 1, 2


class Mpeg4Parser:
    """One VOP per packet, or two where DivX packed a B-frame behind its anchor.

    Attributes:
        packed: whether a packet held two VOPs.
    """

    nal_length_size = 0

    def __init__(self, extradata: bytes) -> None:
        self.parameter_sets: tuple[bytes, ...] = ()
        self.packed = False
        self._order = DisplayOrder()
        self.set_extradata(extradata)

    def set_extradata(self, extradata: bytes) -> None:
        """Visual object sequence, visual object and layer, with start codes."""
        if extradata.startswith(b"\0\0\1"):
            self.parameter_sets = (extradata,)

    def packet(self, data: bytes, key_hint: bool) -> PacketInfo:
        """See `Parser.packet`."""
        vop = data.find(_VOP)
        if vop < 0 or vop + 5 > len(data):
            return UNSURE
        self.packed = self.packed or data.find(_VOP, vop + 4) >= 0
        if data[:3] == b"\0\0\1" and (data[3] in _CONFIGURATION or data[3] < 0x30):
            sets = data[: self._end_of_configuration(data, vop)]
            if self.parameter_sets != (sets,):
                self.parameter_sets = (sets,)
        kind = data[vop + 4] >> 6
        return PacketInfo(sync=kind == _I, disposable=kind == _B, order=self._order.next(kind == _B))

    @staticmethod
    def _end_of_configuration(data: bytes, vop: int) -> int:
        group = data.find(b"\0\0\1\xb3", 0, vop)
        return group if group >= 0 else vop
