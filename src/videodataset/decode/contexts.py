"""Decoder contexts of this process, kept between runs: making one costs more than many a run."""

from __future__ import annotations

import os
import threading
from collections import OrderedDict
from typing import Any

import av

from videodataset.errors import UnsupportedVideoError
from videodataset.index.model import StreamInfo

#: A context holds its pictures' buffers (tens of megabytes at 1080p), so few are kept idle.
_MAX_IDLE = 8
_DECODERS = {"av1": "libdav1d"}  # FFmpeg's own "av1" only drives hardware


class Contexts:
    """Idle contexts by (codec, configuration); a context in use belongs to its user."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._idle: OrderedDict[int, tuple[tuple[str, str, bytes], Any]] = OrderedDict()

    def take(self, info: StreamInfo, name: str) -> Any:
        """Return a flushed one-thread context for this stream.

        Raises:
            UnsupportedVideoError: this FFmpeg has no decoder for the codec.
        """
        key = (info.codec, info.codec_tag, info.extradata)
        with self._lock:
            for number, (have, context) in reversed(self._idle.items()):
                if have == key:
                    del self._idle[number]
                    return context
        return _make(info, name)

    def give_back(self, info: StreamInfo, context: Any) -> None:
        """Flush a context and keep it for the next run."""
        context.flush_buffers()
        with self._lock:
            self._idle[id(context)] = ((info.codec, info.codec_tag, info.extradata), context)
            while len(self._idle) > _MAX_IDLE:
                self._idle.popitem(last=False)

    def after_fork(self) -> None:
        """Take a fresh lock. Idle contexts have no threads and are plain memory, so the child may use its copies."""
        self._lock = threading.Lock()


def decoder_name(codec: str) -> str:
    """Return FFmpeg's name of the decoder that serves a codec."""
    return _DECODERS.get(codec, codec)


def _make(info: StreamInfo, name: str) -> Any:
    try:
        context: Any = av.CodecContext.create(decoder_name(info.codec), "r")
    except (ValueError, av.error.FFmpegError) as error:
        raise UnsupportedVideoError(
            f"{name}: this FFmpeg has no decoder for {info.codec} ({error}). Re-encode the video, for example to H.264."
        ) from error
    context.thread_count = 1
    if info.extradata:
        context.extradata = info.extradata
    if info.codec in ("h264", "hevc"):
        # Without it FFmpeg guesses the reorder depth of streams that do not state it, and silently drops a picture
        # whenever the guess was too small.
        context.options = {"strict": "1"}
    # FFmpeg's MPEG-4 decoder knows Xvid and DivX, and their bugs, by the container's tag.
    context.codec_tag = info.codec_tag
    # Some codecs need the size when no in-band header has it; those that have one overwrite it.
    context.width, context.height = info.width, info.height
    return context


contexts = Contexts()
os.register_at_fork(after_in_child=contexts.after_fork)
