"""MPEG-1 and MPEG-2: sequence, GOP and picture headers (ISO/IEC 13818-2 6.2)."""

from __future__ import annotations

from videodataset.index.bitstream.display_order import DisplayOrder
from videodataset.index.bitstream.packet_info import UNSURE, PacketInfo

_SEQUENCE, _GROUP, _PICTURE, _EXTENSION = b"\0\0\1\xb3", b"\0\0\1\xb8", b"\0\0\1\0", b"\0\0\1\xb5"
_I, _P, _B = 1, 2, 3
_PICTURE_CODING_EXTENSION, _FRAME = 8, 3


class Mpeg12Parser:
    """One picture, or one field of it, per packet."""

    nal_length_size = 0

    def __init__(self, extradata: bytes) -> None:
        self.parameter_sets: tuple[bytes, ...] = ()
        self._order = DisplayOrder()
        self._open_field = 0  # picture_structure of a first field whose second has not come
        self._closed_gop = False
        self._leading = False  # between an I picture and the next anchor
        self.set_extradata(extradata)

    def set_extradata(self, extradata: bytes) -> None:
        """The sequence header and its extensions."""
        if extradata.startswith(_SEQUENCE):
            self.parameter_sets = (extradata,)

    def packet(self, data: bytes, key_hint: bool) -> PacketInfo:
        """See `Parser.packet`."""
        picture = data.find(_PICTURE)
        if picture < 0 or picture + 6 > len(data):
            return UNSURE
        self._read_headers(data, picture)
        kind = (data[picture + 5] >> 3) & 7
        if kind not in (_I, _P, _B):
            return UNSURE
        structure, fields = self._structure(data, picture)
        second = self._open_field != 0 and structure not in (_FRAME, self._open_field) and fields == 1
        self._open_field = structure if structure != _FRAME and fields == 1 and not second else 0
        if second:
            return PacketInfo(new_picture=False, disposable=kind == _B)
        if kind != _B:
            self._leading = kind == _I
        leading = kind == _B and self._leading and not self._closed_gop
        return PacketInfo(
            sync=kind == _I, disposable=kind == _B, skipped_leading=leading, order=self._order.next(kind == _B)
        )

    def _read_headers(self, data: bytes, picture: int) -> None:
        sequence = data.find(_SEQUENCE, 0, picture)
        group = data.find(_GROUP, 0, picture)
        if sequence >= 0:
            sets = data[sequence : group if group > sequence else picture]
            if self.parameter_sets != (sets,):
                self.parameter_sets = (sets,)
        if group >= 0 and group + 8 <= len(data):
            self._closed_gop = bool(data[group + 7] & 0x40)
        elif sequence >= 0:
            self._closed_gop = False

    @staticmethod
    def _structure(data: bytes, picture: int) -> tuple[int, int]:
        """Return (picture_structure, pictures in the packet); MPEG-1 has frames only."""
        extension = data.find(_EXTENSION, picture, picture + 64)
        structure = _FRAME
        if extension >= 0 and extension + 7 <= len(data) and data[extension + 4] >> 4 == _PICTURE_CODING_EXTENSION:
            structure = data[extension + 6] & 3 or _FRAME
        another = data.find(_PICTURE, picture + 4) >= 0 if structure != _FRAME else False
        return structure, 2 if another else 1
