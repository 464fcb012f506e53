"""A storage seen as a read-only file, for libraries that want one."""

from __future__ import annotations

import io

from videodataset.storage.base import Storage


class StorageFile:
    """`read`, `seek` and `tell` over a storage, as PyAV asks of a Python file.

    Args:
        storage: the bytes.
        padded_size_bytes: pretend to be so long, with zeros after the storage's end. A demuxer then gives every packet
            that a cut file's header promises, with its times.
    """

    def __init__(self, storage: Storage, padded_size_bytes: int = 0) -> None:
        self._storage = storage
        self._size = max(storage.size_bytes, padded_size_bytes)
        self._position = 0
        # FFmpeg guesses formats without a signature (raw streams) by the name's ending.
        self.name = storage.name

    def read(self, size_bytes: int = -1) -> bytes:
        """Return up to `size_bytes` from the position; b"" at the end."""
        left = self._size - self._position
        wanted = max(0, left if size_bytes < 0 else min(size_bytes, left))
        data = self._storage.read(self._position, wanted)
        if self._position + wanted > self._storage.size_bytes:
            data += bytes(wanted - len(data))
        self._position += len(data)
        return data

    def seek(self, offset: int, whence: int = io.SEEK_SET) -> int:
        """Move the position and return it."""
        base = {io.SEEK_SET: 0, io.SEEK_CUR: self._position, io.SEEK_END: self._size}[whence]
        self._position = max(0, base + offset)
        return self._position

    def tell(self) -> int:
        """Return the position."""
        return self._position

    def seekable(self) -> bool:
        """Return True."""
        return True

    def readable(self) -> bool:
        """Return True."""
        return True

    def writable(self) -> bool:
        """Return False."""
        return False
