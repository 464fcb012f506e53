"""A stretch of another storage, such as a member of a tar file."""

from __future__ import annotations

from videodataset.errors import UnreadableVideoError
from videodataset.storage.base import Identity, Storage


class StoragePart:
    """A whole video that lies inside a larger source.

    Args:
        whole: the larger source.
        offset: where the video begins, in bytes.
        size_bytes: how long it is.

    Raises:
        UnreadableVideoError: the stretch is not inside the source.
    """

    __slots__ = ("_offset", "_size", "_whole", "name")

    def __init__(self, whole: Storage, offset: int, size_bytes: int) -> None:
        self.name = f"{whole.name}[{offset}:{offset + size_bytes}]"
        if offset < 0 or size_bytes < 0 or offset + size_bytes > whole.size_bytes:
            raise UnreadableVideoError(
                f"{self.name}: not inside the source, which has {whole.size_bytes} bytes. Check offset and size."
            )
        self._whole, self._offset, self._size = whole, offset, size_bytes

    @property
    def identity(self) -> Identity | None:
        """That of the whole source: any change of it makes saved indexes of its parts stale."""
        return self._whole.identity

    @property
    def size_bytes(self) -> int:
        """Number of bytes of the part."""
        return self._size

    @property
    def local_file(self) -> tuple[str, int] | None:
        """The path of the file that holds it, and where it begins there; None where it is no local file."""
        whole: tuple[str, int] | None = getattr(self._whole, "local_file", None)
        return None if whole is None else (whole[0], whole[1] + self._offset)

    def is_unchanged(self) -> bool:
        """See `Storage.is_unchanged`."""
        return self._whole.is_unchanged()

    def read(self, offset: int, size_bytes: int) -> bytes:
        """See `Storage.read`."""
        return self._whole.read(self._offset + offset, max(0, min(size_bytes, self._size - offset)))
