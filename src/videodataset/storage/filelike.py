"""Objects with `read` and `seek`, such as `io.BytesIO`, an open file or an fsspec file."""

from __future__ import annotations

import io
import threading
from typing import Protocol

from videodataset.errors import UnreadableVideoError


class SeekableReader(Protocol):
    """What is asked of a file-like source."""

    def read(self, size: int, /) -> bytes:
        """Return at most `size` bytes from the current position, b"" at the end."""

    def seek(self, offset: int, whence: int, /) -> int | None:
        """Move the position."""


class FileLike:
    """A file-like object; it has one position, so reads take turns."""

    identity = None

    def __init__(self, file: SeekableReader) -> None:
        self.name = str(getattr(file, "name", "")) or f"<{type(file).__name__} object>"
        self._file = file
        self._lock = threading.Lock()
        try:
            end = file.seek(0, io.SEEK_END)
            # Not every seek() returns the position.
            self.size_bytes = end if end is not None else file.tell()  # type: ignore[attr-defined]
        except (OSError, ValueError, AttributeError) as error:
            raise UnreadableVideoError(
                f"{self.name}: cannot seek to its end ({error}). Read it whole and pass bytes instead."
            ) from error

    def is_unchanged(self) -> bool:
        """See `Storage.is_unchanged`."""
        return True

    def read(self, offset: int, size_bytes: int) -> bytes:
        """See `Storage.read`."""
        parts: list[bytes] = []
        with self._lock:
            try:
                self._file.seek(offset, io.SEEK_SET)
                while size_bytes > 0:
                    part = self._file.read(size_bytes)
                    if not part:
                        break
                    parts.append(part)
                    size_bytes -= len(part)
            except (OSError, ValueError) as error:
                raise UnreadableVideoError(f"{self.name}: cannot be read: {error}.") from error
        return parts[0] if len(parts) == 1 else b"".join(parts)
