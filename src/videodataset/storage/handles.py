"""Open files of this process: shared by all decoders, bounded in number, read by position.

A thousand decoders may be alive while `ulimit -n` is 256, so a decoder holds no file. Reads go through `os.pread`,
which has no file position, so threads and forked children can share a handle.
"""

from __future__ import annotations

import os
import threading
from collections import OrderedDict
from collections.abc import Iterator
from contextlib import contextmanager

DEFAULT_MAX_OPEN_FILES = 64


def max_open_files() -> int:
    """Bound on idle open files, from VIDEODATASET_MAX_OPEN_FILES."""
    return max(1, int(os.environ.get("VIDEODATASET_MAX_OPEN_FILES", DEFAULT_MAX_OPEN_FILES)))


class _Handle:
    __slots__ = ("fd", "users")

    def __init__(self, fd: int) -> None:
        self.fd = fd
        self.users = 0


class Handles:
    """Least recently used cache of open files, keyed by the caller's choice."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._open: OrderedDict[tuple[object, ...], _Handle] = OrderedDict()

    @contextmanager
    def borrow(self, path: str, key: tuple[object, ...]) -> Iterator[int]:
        """Give the descriptor of `path`, opened now unless `key` is already open; it stays open while borrowed."""
        with self._lock:
            handle = self._open.get(key)
            if handle is None:
                handle = _Handle(os.open(path, os.O_RDONLY | os.O_CLOEXEC))
                self._open[key] = handle
            else:
                self._open.move_to_end(key)
            handle.users += 1
            self._close_idle()
        try:
            yield handle.fd
        finally:
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
