"""How a planar pixel format lies in memory."""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import av
import numpy as np
import numpy.typing as npt


@dataclass(frozen=True, slots=True)
class PlanarLayout:
    """A planar format of 8 to 16 bits in native byte order, samples in the low bits.

    Attributes:
        depth: bits per sample.
        chroma_shift_x: log2 of the horizontal chroma subsampling.
        chroma_shift_y: log2 of the vertical chroma subsampling.
        kind: "yuv", "gbr" or "gray".
    """

    depth: int
    chroma_shift_x: int
    chroma_shift_y: int
    kind: str


@lru_cache(maxsize=64)
def planar_layout(pixel_format: str) -> PlanarLayout | None:
    """Return the layout of a format FFmpeg decodes to, or None where it is not one of these kinds."""
    kind = next((kind for kind in ("yuv", "gbr", "gray") if pixel_format.startswith(kind)), None)
    video_format: Any = av.VideoFormat(pixel_format, 64, 64)
    components = video_format.components
    if kind is None or pixel_format.endswith("be") or "f" in pixel_format.removeprefix(kind):
        return None
    if "msb" in pixel_format:  # samples in the high bits
        return None
    if len({c.plane for c in components}) != len(components) or len({c.bits for c in components}) != 1:
        return None
    depth = components[0].bits
    if depth > 16 or not (depth == 8 or pixel_format.endswith("le")):
        return None
    shift_x = (64 // video_format.chroma_width(64)).bit_length() - 1
    shift_y = (64 // video_format.chroma_height(64)).bit_length() - 1
    return PlanarLayout(depth, shift_x if kind == "yuv" else 0, shift_y if kind == "yuv" else 0, kind)


def plane_samples(frame: Any, number: int, layout: PlanarLayout) -> npt.NDArray[np.generic]:
    """Return one plane of an `av.VideoFrame` as (height, width), uint8 or uint16, without a copy."""
    plane = frame.planes[number]
    dtype = np.dtype(np.uint8 if layout.depth == 8 else "<u2")
    lines = np.frombuffer(plane, np.uint8)
    shift_x, shift_y = (layout.chroma_shift_x, layout.chroma_shift_y) if number in (1, 2) else (0, 0)
    width, height = -(-frame.width >> shift_x), -(-frame.height >> shift_y)
    pitch = plane.line_size
    return np.ndarray((height, width), dtype, lines, strides=(pitch, dtype.itemsize))


def full_size(
    plane: npt.NDArray[np.generic], number: int, layout: PlanarLayout, crop: tuple[int, int, int, int]
) -> npt.NDArray[np.generic]:
    """Return a part of one plane at the size of the picture, chroma repeated (nearest).

    Args:
        plane: all samples of the plane, (height, width) as `plane_samples` gives them.
        number: which plane it is; 1 and 2 are chroma.
        layout: of the picture.
        crop: (top, left, height, width) in pixels of the decoded picture, inside it.

    Returns:
        (height, width) of the crop: a view where nothing is repeated.
    """
    top, left, height, width = crop
    shift_x, shift_y = (layout.chroma_shift_x, layout.chroma_shift_y) if number in (1, 2) else (0, 0)
    part = plane[top >> shift_y : -(-(top + height) >> shift_y), left >> shift_x : -(-(left + width) >> shift_x)]
    for axis, shift in ((0, shift_y), (1, shift_x)):
        if shift:
            part = part.repeat(1 << shift, axis=axis)
    row, column = top - (top >> shift_y << shift_y), left - (left >> shift_x << shift_x)
    return part[row : row + height, column : column + width]
