"""NAL units of H.264 and HEVC: where they begin and end in a packet, and their bytes without emulation prevention."""

from __future__ import annotations

from collections.abc import Iterator

_START_CODE = b"\0\0\1"


def nal_units(data: bytes, length_size: int) -> Iterator[tuple[int, int]]:
    """Give (start, stop) of each NAL unit of a packet; what does not fit is cut or left out.

    Args:
        data: the packet.
        length_size: bytes of the length before each unit (ISO/IEC 14496-15); 0 = start codes (H.264 annex B).
    """
    if length_size:
        at = 0
        while at + length_size < len(data):
            start = at + length_size
            at = start + int.from_bytes(data[at:start], "big")
            if at > start:
                yield start, min(at, len(data))
        return
    start = data.find(_START_CODE) + 3
    while start >= 3:
        following = data.find(_START_CODE, start)
        stop = following if following >= 0 else len(data)
        while stop > start and data[stop - 1] == 0:
            stop -= 1  # zeros before a start code belong to it (H.264 B.1.1)
        if stop > start:
            yield start, stop
        start = following + 3


def payload_of(unit: bytes) -> bytes:
    """Return a unit without its emulation prevention bytes (ITU-T H.264 7.3.1)."""
    return unit.replace(b"\0\0\3", b"\0\0")
