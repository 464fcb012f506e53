"""Open files of this process: shared by all decoders, bounded in number, read by position.

A thousand decoders may be alive while `ulimit -n` is 256, so a decoder holds no file. Reads go through `os.pread`,
which has no file position, so threads and forked children can share a handle.
"""

from __future__ import annotations

import os
import threading
from collections import OrderedDict

DEFAULT_MAX_OPEN_FILES = 64


def max_open_files() -> int:
    """Bound on idle open files, from VIDEODATASET_MAX_OPEN_FILES."""
    return max(1, int(os.environ.get("VIDEODATASET_MAX_OPEN_FILES", DEFAULT_MAX_OPEN_FILES)))


class Handle:
    """An open file.

    Attributes:
        fd: its descriptor.
        users: how many are reading from it.
    """

    __slots__ = ("fd", "users")

    def __init__(self, fd: int) -> None:
        self.fd = fd
        self.users = 0


class Handles:
    """Least recently used cache of open files, keyed by the caller's choice."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._open: OrderedDict[tuple[object, ...], Handle] = OrderedDict()

    def take(self, path: str, key: tuple[object, ...]) -> Handle:
        """Return an open handle on `path`, opened now unless `key` is already open; it stays so until given back."""
        with self._lock:
            handle = self._open.get(key)
            if handle is None:
                handle = Handle(os.open(path, os.O_RDONLY | os.O_CLOEXEC))
                self._open[key] = handle
                handle.users += 1
                self._close_idle()
            else:
                self._open.move_to_end(key)
                handle.users += 1
            return handle

    def give_back(self, handle: Handle) -> None:
        """End the use of a handle."""
        with self._lock:
            handle.users -= 1

    def _close_idle(self) -> None:
        excess = len(self._open) - max_open_files()
        if excess <= 0:
            return
        idle = [key for key, handle in self._open.items() if handle.users == 0][:excess]
        for key in idle:
            os.close(self._open.pop(key).fd)

    def after_fork(self) -> None:
        """Take a fresh lock: another thread of the parent may have held the old one at the fork."""
        self._lock = threading.Lock()
        for handle in self._open.values():
            handle.users = 0


handles = Handles()
os.register_at_fork(after_in_child=handles.after_fork)
