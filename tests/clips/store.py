"""Where clips are kept: made on first use, once for all xdist workers of a session."""

from __future__ import annotations

import fcntl
import os
from collections.abc import Callable
from pathlib import Path

from clips.catalogue import CLIPS
from clips.damage import DAMAGED


class ClipStore:
    """Call with a name of `CLIPS` or `DAMAGED` to get the path of that clip."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        folder.mkdir(parents=True, exist_ok=True)

    def __call__(self, name: str) -> Path:
        if name in CLIPS:
            return self._once(f"{name}.{CLIPS[name].suffix}", CLIPS[name].write)
        return self._once(f"damaged_{name}.{DAMAGED[name].suffix}", lambda path: DAMAGED[name].write(path, self))

    def _once(self, file_name: str, write: Callable[[Path], None]) -> Path:
        path = self.folder / file_name
        if path.exists():
            return path
        with (self.folder / f".{file_name}.lock").open("w") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX)
            if not path.exists():
                draft = self.folder / f"draft_{os.getpid()}_{file_name}"
                write(draft)
                draft.replace(path)
        return path
