"""Videos that this process has opened: storage and index, kept so that a batch over many files opens none twice."""

from __future__ import annotations

import os
import threading
from collections import OrderedDict
from collections.abc import Collection

from videodataset.index import VideoIndex, load_or_build
from videodataset.storage import Source, Storage, open_storage
from videodataset.storage.part import StoragePart

#: Indexes take about 50 bytes a picture and 10 KiB a video; least recently used videos are dropped beyond this.
MAX_CACHED_BYTES = 256 * 2**20
_FIXED_BYTES = 10 * 1024

#: A request that begins so few frames after the one before, or at the first frame, is taken as reading on.
_READS_ON = 8


class Video:
    """An opened video.

    Attributes:
        storage: its bytes.
        index: its index.
        name: what messages call it.
        fallback_reason: why pictures that a GPU was to decode were decoded on the CPU; None as long as none was.
    """

    __slots__ = ("_last", "fallback_reason", "index", "name", "storage")

    def __init__(self, storage: Storage, stream_index: int | None = None) -> None:
        self.storage, self.name = storage, storage.name
        self.index: VideoIndex = load_or_build(storage, stream_index=stream_index)
        self._last = -1
        self.fallback_reason: str | None = None

    def reads_on(self, frames: Collection[int]) -> bool:
        """Note a request for these frames; whether it goes on where the one before ended."""
        first, before = min(frames), self._last
        self._last = max(frames)
        return before < first <= before + _READS_ON

    @property
    def size_bytes(self) -> int:
        """Memory its index takes, about."""
        index = self.index
        arrays = (getattr(index, name) for name in index.__dataclass_fields__)
        return _FIXED_BYTES + sum(getattr(array, "nbytes", 0) for array in arrays)


class Videos:
    """Opened videos by path and stretch, least recently used dropped. A file that changed is opened anew."""

    def __init__(self, max_bytes: int = MAX_CACHED_BYTES) -> None:
        self._max_bytes, self._bytes = max_bytes, 0
        self._lock = threading.Lock()
        self._videos: OrderedDict[tuple[str, tuple[int, int] | None], tuple[Video, int]] = OrderedDict()

    def open(self, source: Source, byte_range: tuple[int, int] | None = None) -> Video:
        """Return the video of a source, or of the stretch (offset, size) in bytes of it.

        Sources other than paths are opened at every call.

        Raises:
            UnreadableVideoError: the source cannot be read as a video.
            NoVideoStreamError: it holds no video stream.
            UnsupportedVideoError: the codec is not known.
        """
        if not isinstance(source, (str, os.PathLike)):
            return Video(_storage(source, byte_range))
        key = (os.fspath(source), byte_range)
        with self._lock:
            found = self._videos.get(key)
            if found is not None:
                self._videos.move_to_end(key)
        if found is not None and found[0].storage.is_unchanged():
            return found[0]
        video = Video(_storage(source, byte_range))
        if video.storage.identity is not None:
            self._keep(key, video)
        return video

    def _keep(self, key: tuple[str, tuple[int, int] | None], video: Video) -> None:
        size_bytes = video.size_bytes
        with self._lock:
            before = self._videos.pop(key, None)
            self._videos[key] = (video, size_bytes)
            self._bytes += size_bytes - (before[1] if before is not None else 0)
            while self._bytes > self._max_bytes and len(self._videos) > 1:
                self._bytes -= self._videos.popitem(last=False)[1][1]

    def after_fork(self) -> None:
        """Take a fresh lock; the child goes on with its copies."""
        self._lock = threading.Lock()


def _storage(source: Source, byte_range: tuple[int, int] | None) -> Storage:
    storage = open_storage(source)
    return storage if byte_range is None else StoragePart(storage, *byte_range)


videos = Videos()
os.register_at_fork(after_in_child=videos.after_fork)
