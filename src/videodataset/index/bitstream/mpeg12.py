"""MPEG-1 and MPEG-2: sequence, GOP and picture headers (ISO/IEC 13818-2 6.2)."""

from __future__ import annotations

from videodataset.index.bitstream.display_order import DisplayOrder
from videodataset.index.bitstream.packet_info import UNSURE, PacketInfo

_START = b"\0\0\1"
_SEQUENCE, _GROUP, _PICTURE, _EXTENSION = b"\0\0\1\xb3", b"\0\0\1\xb8", b"\0\0\1\0", b"\0\0\1\xb5"
_USER_DATA = b"\0\0\1\xb2"
_I, _P, _B = 1, 2, 3
_PICTURE_CODING_EXTENSION, _FRAME = 8, 3


class Mpeg12Parser:
    """One picture, or one field of it, per packet.

    The order is that of ISO/IEC 13818-2 6.1.1.11, told by the picture types alone, as FFmpeg's decoder does it. In
    sound streams temporal_reference says the same; it wraps, restarts, and is wrong in streams cut without care.
    """

    nal_length_size = 0

    def __init__(self, extradata: bytes) -> None:
        self.parameter_sets: tuple[bytes, ...] = ()
        self._order = DisplayOrder()
        self._open_field = 0  # picture_structure of a first field whose second has not come
        self._leading = False  # B pictures now may refer to a picture before the last I picture
        self.set_extradata(extradata)

    def set_extradata(self, extradata: bytes) -> None:
        """The sequence header and its extensions."""
        sequence = extradata.find(_SEQUENCE)
        if sequence >= 0:
            self._take_sequence(extradata, sequence, len(extradata))

    def packet(self, data: bytes | memoryview, key_hint: bool) -> PacketInfo:
        """See `Parser.packet`. B pictures of an open GOP are `skipped_leading` (6.3.8: closed_gop)."""
        data = bytes(data)
        picture = data.find(_PICTURE)
        kind = (data[picture + 5] >> 3) & 7 if 0 <= picture < len(data) - 5 else 0
        if kind not in (_I, _P, _B):
            self._open_field = 0
            return UNSURE
        sequence = data.find(_SEQUENCE, 0, picture)
        if sequence >= 0:
            self._take_sequence(data, sequence, picture)
        structure, both_fields = _structure(data, picture)
        alone = structure != _FRAME and not both_fields
        if alone and self._open_field and structure != self._open_field:
            self._open_field = 0
            return PacketInfo(new_picture=False, disposable=kind == _B)
        self._open_field = structure if alone else 0
        if kind != _B:
            self._leading = kind == _I and not _is_closed_gop(data, picture)
        return PacketInfo(
            sync=kind == _I,
            disposable=kind == _B,
            skipped_leading=kind == _B and self._leading,
            order=self._order.next(kind == _B),
        )

    def _take_sequence(self, data: bytes, start: int, stop: int) -> None:
        """Keep sequence_header and its extensions (6.2.2), without the user data between them."""
        units = []
        while start >= 0:
            code = data[start : start + 4]
            following = data.find(_START, start + 4, stop)
            if code in (_SEQUENCE, _EXTENSION):
                units.append(data[start : following if following >= 0 else stop])
            elif code != _USER_DATA:
                break
            start = following
        sets = b"".join(units)
        if self.parameter_sets != (sets,):
            self.parameter_sets = (sets,)


def _is_closed_gop(data: bytes, picture: int) -> bool:
    """closed_gop of the group header before a picture (6.2.2.6); a picture without one may have an open GOP."""
    group = data.find(_GROUP, 0, picture)
    return 0 <= group < len(data) - 7 and bool(data[group + 7] & 0x40)


def _structure(data: bytes, picture: int) -> tuple[int, bool]:
    """Return (picture_structure, whether the packet holds both fields); MPEG-1 has frames only (6.2.3.1)."""
    extension = data.find(_EXTENSION, picture, picture + 64)
    structure = _FRAME
    if extension >= 0 and extension + 7 <= len(data) and data[extension + 4] >> 4 == _PICTURE_CODING_EXTENSION:
        structure = data[extension + 6] & 3 or _FRAME
    return structure, structure != _FRAME and data.find(_PICTURE, picture + 4) >= 0
