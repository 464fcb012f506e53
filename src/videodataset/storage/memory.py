"""Bytes that the caller already holds."""

from __future__ import annotations


class MemoryBytes:
    """A whole video in memory. Not copied: `data` must stay as it is while in use."""

    __slots__ = ("_view", "name")

    identity = None

    def __init__(self, data: bytes | bytearray | memoryview, name: str | None = None) -> None:
        self._view = memoryview(data).cast("B")
        self.name = name or f"<{len(self._view)} bytes in memory>"

    @property
    def size_bytes(self) -> int:
        """Number of bytes."""
        return len(self._view)

    def is_unchanged(self) -> bool:
        """See `Storage.is_unchanged`."""
        return True

    def read(self, offset: int, size_bytes: int) -> bytes:
        """See `Storage.read`."""
        return bytes(self._view[offset : offset + size_bytes])
