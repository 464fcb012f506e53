"""Files on this machine."""

from __future__ import annotations

import os
import stat

from videodataset.errors import UnreadableVideoError
from videodataset.storage.base import Identity
from videodataset.storage.handles import handles


def identity_of(status: os.stat_result) -> Identity:
    """Return what identifies this state of a file."""
    return Identity(status.st_size, status.st_mtime_ns, status.st_ino)


class LocalFile:
    """A file by path. It must not change while in use: every read checks, and refuses bytes of another state."""

    __slots__ = ("_identity", "_key", "_state", "name")

    def __init__(self, path: str) -> None:
        self.name = path
        try:
            status = os.stat(path)
        except OSError as error:
            raise UnreadableVideoError(f"{path}: cannot be opened: {error.strerror}. Check the path.") from error
        if stat.S_ISDIR(status.st_mode):
            raise UnreadableVideoError(f"{path}: is a directory, not a video file.")
        self._identity = identity_of(status)
        self._state = (status.st_size, status.st_mtime_ns, status.st_ino)
        self._key = (path, self._state)

    @property
    def identity(self) -> Identity:
        """Size, modification time and inode when this object was made."""
        return self._identity

    @property
    def size_bytes(self) -> int:
        """Size of the file."""
        return self._identity.size_bytes

    @property
    def local_file(self) -> tuple[str, int]:
        """The path, and where in that file the source begins: for readers that open it themselves."""
        return self.name, 0

    def is_unchanged(self) -> bool:
        """See `Storage.is_unchanged`."""
        try:
            now = os.stat(self.name)
        except OSError:
            return False
        was = self._identity
        return (now.st_size, now.st_mtime_ns, now.st_ino) == (was.size_bytes, was.mtime_ns, was.inode)

    def read(self, offset: int, size_bytes: int) -> bytes:
        """See `Storage.read`."""
        try:
            handle = handles.take(self.name, self._key)
            try:
                status = os.fstat(handle.fd)
                if (status.st_size, status.st_mtime_ns, status.st_ino) != self._state:
                    now = identity_of(status)
                    raise UnreadableVideoError(
                        f"{self.name}: changed while in use (was {self._identity}, now {now}). Open it again."
                    )
                return os.pread(handle.fd, size_bytes, offset)
            finally:
                handles.give_back(handle)
        except UnreadableVideoError:
            raise
        except OSError as error:
            raise UnreadableVideoError(f"{self.name}: cannot be read: {error.strerror}.") from error
