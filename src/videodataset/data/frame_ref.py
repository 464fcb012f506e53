"""A wish for frames of one video: tiny, picklable, holding no file."""

from __future__ import annotations

import numbers
import os
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
import torch

from videodataset.fetch.ask import OutputKind
from videodataset.frames import FrameBatch
from videodataset.storage import Source

if TYPE_CHECKING:
    from videodataset.convert import Transform

Match = Literal["played", "nearest"]


@dataclass(frozen=True, slots=True)
class Options:
    """What references of one kind have in common; see `FrameRef`."""

    match: Match = "played"
    tolerance_s: float | None = None
    crop: tuple[int, int, int, int] | None = None
    size: tuple[int, int] | int | None = None
    output: OutputKind = "rgb"
    times: bool = False

    def __post_init__(self) -> None:
        if self.match not in ("played", "nearest"):
            raise ValueError(f"match must be 'played' or 'nearest', got {self.match!r}")
        if self.output not in ("rgb", "yuv", "gray16"):
            raise ValueError(f"output must be 'rgb', 'yuv' or 'gray16', got {self.output!r}")
        if self.tolerance_s is not None and not self.tolerance_s >= 0:
            raise ValueError(f"tolerance_s must be at least 0 seconds, got {self.tolerance_s}")
        if self.size is not None and self.output != "rgb":
            raise ValueError(f"size applies to rgb only; {self.output!r} gives the samples as they were coded")


class FrameRef:
    """Frames of one video, to be decoded later, together with those of other references.

    Args:
        source: path or address, bytes, 1-D uint8 tensor, or file-like object.
        indices: a frame number, or a sequence of them; negative numbers count from the end.
        seconds: instead of `indices`: a time, or a sequence of them, on the stream's own timeline.
        match: "played": the frame on screen at a time; "nearest": the one whose pts is nearest, the earlier of two
            equally near.
        tolerance_s: the most that a frame's pts may be away from the asked time, in seconds. None: with "nearest" a
            time before the first pts or after the last frame's end is refused, as it is with "played".
        crop: (top, left, height, width) of the displayed picture, in pixels.
        size: (height, width), or the shorter side, after the crop; wins over a loader's transform.
        output: "rgb", or the samples as they were coded: "yuv" (3, H, W), chroma repeated to full size, or "gray16"
            (1, H, W) uint16, the first plane.
        times: give `FrameBatch(data, pts_seconds, duration_seconds)` instead of the pixels alone.
        byte_range: (offset, size) in bytes where the video lies inside the source, such as a member of a tar file.

    One number gives (C, H, W), a sequence of n numbers (n, C, H, W), also for n = 1. Neither the video nor the numbers
    are looked at before frames are resolved.

    Raises:
        TypeError: neither or both of `indices` and `seconds`, or something that is no number.
        ValueError: an argument out of its range.
    """

    __slots__ = ("byte_range", "numbers", "options", "source")

    def __init__(
        self,
        source: Source,
        indices: int | Sequence[int] | torch.Tensor | None = None,
        *,
        seconds: float | Sequence[float] | torch.Tensor | None = None,
        match: Match = "played",
        tolerance_s: float | None = None,
        crop: tuple[int, int, int, int] | None = None,
        size: tuple[int, int] | int | None = None,
        output: OutputKind = "rgb",
        times: bool = False,
        byte_range: tuple[int, int] | None = None,
    ) -> None:
        if (indices is None) == (seconds is None):
            raise TypeError("give either indices or seconds")
        self.source = os.fspath(source) if type(source) is not str and isinstance(source, os.PathLike) else source
        self.numbers: np.ndarray[Any, Any] = _whole_numbers(indices) if seconds is None else _times(seconds)
        given = (match, tolerance_s, crop, size, output, times)
        self.options = _DEFAULT if given == _DEFAULT_VALUES else _options(*given)
        self.byte_range = None if byte_range is None else (int(byte_range[0]), int(byte_range[1]))

    @property
    def by_time(self) -> bool:
        """Whether frames are asked for by time."""
        return bool(self.numbers.dtype == np.float64)

    @property
    def is_single(self) -> bool:
        """Whether one frame without a leading dimension is asked for."""
        return self.numbers.ndim == 0

    def load(
        self, device: str | torch.device | None = None, transform: Transform | None = None
    ) -> torch.Tensor | FrameBatch:
        """Decode now, in any process: for code that needs pixels inside `__getitem__`.

        Returns:
            What the reference says: (C, H, W) or (n, C, H, W), uint8 unless a transform says otherwise; with `times` a
            `FrameBatch` of that.

        Raises:
            FrameIndexError: a frame or time outside the video.
            DamagedVideoError: a frame cannot be decoded without error.
            UnreadableVideoError: the source cannot be read as a video.
        """
        from videodataset.data.decode import decode  # decode takes references, so its module needs this one

        decoded: torch.Tensor | FrameBatch = decode(self, device=device, transform=transform)
        return decoded

    def __reduce__(self) -> tuple[Any, ...]:
        """Pickle as its fields."""
        return _unpickled, (self.source, self.numbers, self.options, self.byte_range)

    def __eq__(self, other: object) -> bool:
        """Whether it asks for the same."""
        if not isinstance(other, FrameRef):
            return NotImplemented
        same = self.source is other.source or (type(self.source) is str and self.source == other.source)
        if not same or (self.options, self.byte_range) != (other.options, other.byte_range):
            return False
        return self.numbers.dtype == other.numbers.dtype and bool(np.array_equal(self.numbers, other.numbers))

    __hash__ = None  # type: ignore[assignment]

    def __repr__(self) -> str:
        source = self.source if isinstance(self.source, str) else type(self.source).__name__
        unit = "seconds" if self.by_time else "indices"
        return f"FrameRef({source!r}, {unit}={self.numbers.tolist()})"


def _options(match: Match, tolerance_s: Any, crop: Any, size: Any, output: OutputKind, times: bool) -> Options:
    size = tuple(size) if isinstance(size, (tuple, list)) else size
    return Options(match, tolerance_s, None if crop is None else _four(crop), size, output, bool(times))


_DEFAULT = Options()
_DEFAULT_VALUES = tuple(getattr(_DEFAULT, name) for name in Options.__dataclass_fields__)


def _unpickled(source: Any, numbers_: Any, options: Options, byte_range: Any) -> FrameRef:
    ref = FrameRef.__new__(FrameRef)
    ref.source, ref.numbers, ref.options, ref.byte_range = source, numbers_, options, byte_range
    return ref


def _whole_numbers(values: Any) -> np.ndarray[Any, np.dtype[np.int64]]:
    if type(values) is int or isinstance(values, numbers.Integral):
        return np.array(int(values), np.int64)
    array = np.asarray(values.cpu() if isinstance(values, torch.Tensor) else values)
    if array.size and not np.issubdtype(array.dtype, np.integer):
        raise TypeError(f"frame numbers must be ints, got {values!r}")
    return _checked(array.astype(np.int64), "indices")


def _times(values: Any) -> np.ndarray[Any, np.dtype[np.float64]]:
    array = np.asarray(values.cpu() if isinstance(values, torch.Tensor) else values)
    if array.dtype == bool or (array.size and not np.issubdtype(array.dtype, np.number)):
        raise TypeError(f"seconds must be numbers, got {values!r}")
    return _checked(array.astype(np.float64), "seconds")


def _checked(array: np.ndarray[Any, Any], what: str) -> np.ndarray[Any, Any]:
    if array.ndim > 1:
        raise TypeError(f"{what} must be a number or a flat sequence, got {array.ndim} dimensions")
    return array


def _four(crop: Sequence[int]) -> tuple[int, int, int, int]:
    top, left, height, width = (int(each) for each in crop)
    return top, left, height, width
