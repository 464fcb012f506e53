"""MPEG-4 part 2: VOL and VOP headers (ISO/IEC 14496-2 6.2)."""

from __future__ import annotations

from videodataset.index.bitstream.bits import BitReader, TruncatedHeaderError
from videodataset.index.bitstream.display_order import DisplayOrder
from videodataset.index.bitstream.packet_info import UNSURE, PacketInfo

_START, _VOP, _GROUP = b"\0\0\1", b"\0\0\1\xb6", b"\0\0\1\xb3"
_CONFIGURATION = (0xB0, 0xB5)  # visual_object_sequence, visual_object; and 0x00-0x2F: video_object and its layer
_LAYER = range(0x20, 0x30)
_I, _P, _B = 0, 1, 2
_HEADER_BYTES = 64


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
        self._time_bits = 0  # of vop_time_increment; 0 = no layer header yet
        self.set_extradata(extradata)

    def set_extradata(self, extradata: bytes) -> None:
        """Visual object sequence, visual object and layer, with start codes."""
        if extradata.startswith(_START):
            self._take_configuration(extradata)

    def packet(self, data: bytes | memoryview, key_hint: bool) -> PacketInfo:
        """See `Parser.packet`. A VOP that is not coded (vop_coded = 0) is not shown: FFmpeg gives no frame for it."""
        data = bytes(data)
        vop = data.find(_VOP)
        if vop < 0 or vop + 5 > len(data):
            return UNSURE
        self.packed = self.packed or data.find(_VOP, vop + 4) >= 0
        if data.startswith(_START) and (data[3] in _CONFIGURATION or data[3] < 0x30):
            group = data.find(_GROUP, 0, vop)
            self._take_configuration(data[: group if group >= 0 else vop])
        kind = data[vop + 4] >> 6
        try:
            coded = self._is_coded(data[vop + 4 : vop + 4 + _HEADER_BYTES])
        except TruncatedHeaderError:
            return UNSURE
        if not coded:
            # No anchor to FFmpeg: the one before stays the next to be shown.
            return PacketInfo(shown=False, disposable=kind == _B, order=self._order.next(True))
        return PacketInfo(sync=kind == _I, disposable=kind == _B, order=self._order.next(kind == _B))

    def _take_configuration(self, data: bytes) -> None:
        if self.parameter_sets == (data,):
            return
        self.parameter_sets = (data,)
        at = data.find(_START)
        while 0 <= at < len(data) - 4:
            if data[at + 3] in _LAYER:
                try:
                    self._time_bits = _time_increment_bits(data[at + 4 : at + 4 + _HEADER_BYTES])
                except TruncatedHeaderError:
                    self._time_bits = 0
            at = data.find(_START, at + 3)

    def _is_coded(self, header: bytes) -> bool:
        """vop_coded (6.2.5)."""
        if not self._time_bits:
            return True
        bits = BitReader(header)
        bits.u(2)  # vop_coding_type
        while bits.flag():  # modulo_time_base
            pass
        bits.u(1 + self._time_bits + 1)  # vop_time_increment between marker bits
        return bits.flag()


def _time_increment_bits(layer: bytes) -> int:
    """Read a VOL header (6.2.3) up to vop_time_increment_resolution; return the bits vop_time_increment takes."""
    bits = BitReader(layer)
    bits.u(9)  # random_accessible_vol, video_object_type_indication
    version = 1
    if bits.flag():  # is_object_layer_identifier
        version = bits.u(4)
        bits.u(3)
    if bits.u(4) == 15:  # aspect_ratio_info: extended_PAR
        bits.u(16)
    if bits.flag():  # vol_control_parameters
        bits.u(3)
        if bits.flag():  # vbv_parameters
            bits.u(79)
    if bits.u(2) == 3 and version != 1:  # video_object_layer_shape: grayscale
        bits.u(4)
    bits.u(1)
    return max(1, (bits.u(16) - 1).bit_length())
