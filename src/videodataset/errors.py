"""What can go wrong, one class per kind; each also inherits the builtin that people already catch.

A message names the file, what was found, the limit, and what to do about it.
"""

from __future__ import annotations


class VideoDatasetError(Exception):
    """Base of every error this library raises on purpose."""


class UnreadableVideoError(VideoDatasetError, OSError):
    """The source cannot be read as a video: missing, a directory, empty, no container, or changed while open."""


class NoVideoStreamError(VideoDatasetError, ValueError):
    """The container is sound but holds no video stream, or not the one that was asked for."""


class UnsupportedVideoError(VideoDatasetError, ValueError):
    """The video is sound but uses something this library does not decode: codec, pixel format, colour matrix."""


class DamagedVideoError(VideoDatasetError, RuntimeError):
    """The asked frame cannot be decoded without error: bytes are missing or wrong."""


class FrameIndexError(VideoDatasetError, IndexError):
    """A frame number or a time outside the video, or a time that is no number."""


class NvdecUnavailableError(VideoDatasetError, RuntimeError):
    """Decoding on a GPU was asked for and is not possible here."""


class ForkedCudaError(VideoDatasetError, RuntimeError):
    """CUDA was asked for in a process forked from one that had already used it."""
