"""Where in the source a demuxed packet's bytes lie, verified byte for byte.

A demuxer's position is the packet itself in MP4, MOV and AVI, its block header in Matroska and FLV, and nothing
useful in MPEG-TS, where a packet is scattered over 188-byte cells. Headers of the packet, lacing and header stripping
make the bytes differ: then the packet has no place and the stream is read through the demuxer.
"""

from __future__ import annotations

from videodataset.storage import Storage

_WINDOW_BYTES = 64  # the longest header between a demuxer's position and the packet's bytes that is looked for


class PacketLocator:
    """Finds packets of one stream; remembers the last distance, which rarely changes."""

    def __init__(self, storage: Storage) -> None:
        self._storage = storage
        self._distance = 0
        self._end_of_last = 0

    def locate(self, position: int | None, payload: bytes) -> int | None:
        """Return the offset of `payload` in the source, or None where it does not lie in one piece."""
        size_bytes = len(payload)
        if position is not None and position >= 0:
            if self._is_at(position + self._distance, payload):
                return self._found(position + self._distance, size_bytes)
            window = self._storage.read(position, size_bytes + _WINDOW_BYTES)
            distance = window.find(payload)
            if distance >= 0:
                self._distance = distance
                return self._found(position + distance, size_bytes)
        # Raw streams: packets follow one another, and the demuxer's position is that of its read buffer.
        if self._is_at(self._end_of_last, payload):
            return self._found(self._end_of_last, size_bytes)
        return None

    def _is_at(self, offset: int, payload: bytes) -> bool:
        return self._storage.read(offset, len(payload)) == payload

    def _found(self, offset: int, size_bytes: int) -> int:
        self._end_of_last = offset + size_bytes
        return offset
