"""Pictures made from samples, without an encoder."""

from __future__ import annotations

from fractions import Fraction
from typing import Any

import av
import numpy as np

from reference import LAYOUTS
from videodataset.index.model import Orientation, StreamInfo

UNTAGGED, BT709, BT601, BT2020 = 2, 1, 6, 9
UNKNOWN_RANGE, LIMITED, FULL = 0, 1, 2

ORIENTATIONS = [
    Orientation(transpose, flip_x, flip_y)
    for transpose in (False, True)
    for flip_x in (False, True)
    for flip_y in (False, True)
]


def stream(**changes: Any) -> StreamInfo:
    """An untagged stream."""
    facts: dict[str, Any] = dict.fromkeys(StreamInfo.__dataclass_fields__)
    facts.update(color_matrix=UNTAGGED, color_range=UNKNOWN_RANGE, orientation=Orientation(), time_base=Fraction(1, 25))
    return StreamInfo(**{**facts, **changes})


def plane_shapes(pix_fmt: str, width: int, height: int) -> list[tuple[int, int]]:
    """(height, width) of each plane."""
    shift_x, shift_y, _ = LAYOUTS[pix_fmt]
    chroma = (-(-height >> shift_y), -(-width >> shift_x))
    return [(height, width)] if pix_fmt.startswith("gray") else [(height, width), chroma, chroma]


def frame_of(
    planes: list[np.ndarray], pix_fmt: str, colorspace: int = UNTAGGED, color_range: int = UNKNOWN_RANGE
) -> av.VideoFrame:
    """The frame that holds these samples."""
    height, width = planes[0].shape
    frame = av.VideoFrame(width, height, pix_fmt)
    for plane, samples in zip(frame.planes, planes, strict=True):
        rows = np.zeros((plane.height, plane.line_size), np.uint8)
        packed = np.ascontiguousarray(samples).view(np.uint8)
        rows[: packed.shape[0], : packed.shape[1]] = packed
        plane.update(rows.tobytes())
    frame.colorspace, frame.color_range = colorspace, color_range
    return frame


def planes_and_frame(
    pix_fmt: str, width: int, height: int, colorspace: int = UNTAGGED, color_range: int = UNKNOWN_RANGE, seed: int = 0
) -> tuple[list[np.ndarray], av.VideoFrame]:
    """Random samples over all codes, and the frame that holds them."""
    rng = np.random.default_rng(seed)
    depth = LAYOUTS[pix_fmt][2]
    dtype = np.uint8 if depth == 8 else "<u2"
    planes = [rng.integers(0, 2**depth, shape).astype(dtype) for shape in plane_shapes(pix_fmt, width, height)]
    return planes, frame_of(planes, pix_fmt, colorspace, color_range)


def chroma_edges(pix_fmt: str, width: int, height: int) -> list[np.ndarray]:
    """Samples of the legal range whose chroma jumps between its ends from one sample to the next."""
    depth = LAYOUTS[pix_fmt][2]
    unit, dtype = 2 ** (depth - 8), np.uint8 if depth == 8 else np.dtype("<u2")
    planes = []
    for k, (rows, columns) in enumerate(plane_shapes(pix_fmt, width, height)):
        y, x = np.mgrid[:rows, :columns]
        if k == 0:
            codes = 16 + (x * 7 + y * 3) % 220
        else:
            codes = np.where((x // k + y) % 2, 240, 16)
        planes.append((codes * unit).astype(dtype))
    return planes
