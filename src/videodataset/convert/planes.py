"""Decoded samples as they are, without colour conversion: outputs "yuv" and "gray16"."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from videodataset.convert.cpu import oriented
from videodataset.convert.crop import Crop, coded_crop
from videodataset.convert.layout import PlanarLayout, full_size, planar_layout, plane_samples
from videodataset.errors import UnsupportedVideoError
from videodataset.index.model import StreamInfo

SampleArray = npt.NDArray[np.uint8] | npt.NDArray[np.uint16]


def to_yuv(
    frame: Any, info: StreamInfo, name: str, out: SampleArray | None = None, crop: Crop | None = None
) -> SampleArray:
    """Give the Y, U and V samples of a decoded picture, turned as the display matrix says.

    Samples are those that FFmpeg decoded: in the low bits, in the range of the stream (limited or full), with no
    matrix applied. Chroma is repeated (nearest) to the size of luma, so that one array holds the picture.

    Args:
        frame: an `av.VideoFrame`.
        info: the stream.
        name: the source, for messages.
        out: where to write, of the shape and dtype that is returned; None gives a new array.
        crop: (top, left, height, width) in pixels of the displayed picture; None is all of it.

    Returns:
        (3, H, W): uint8 where samples have 8 bits, uint16 where they have 9 to 16.

    Raises:
        UnsupportedVideoError: the pixel format is no planar YUV.
        ValueError: the crop is empty or reaches outside the picture, or `out` has another shape or dtype.
    """
    layout = planar_layout(frame.format.name)
    if layout is None or layout.kind != "yuv":
        raise UnsupportedVideoError(
            f"{name}: pixel format {frame.format.name} is no planar YUV, which output='yuv' needs. "
            f"Use output='rgb', or output='gray16' for gray video."
        )
    return _samples(frame, layout, info, name, np.dtype(np.uint8 if layout.depth == 8 else np.uint16), 3, out, crop)


def to_gray16(
    frame: Any, info: StreamInfo, name: str, out: SampleArray | None = None, crop: Crop | None = None
) -> SampleArray:
    """Give the gray samples of a decoded picture, or the luma of a YUV one, such as depth in gray16le or yuv420p12le.

    Args:
        frame: an `av.VideoFrame`.
        info: the stream.
        name: the source, for messages.
        out: where to write, of the shape and dtype that is returned; None gives a new array.
        crop: (top, left, height, width) in pixels of the displayed picture; None is all of it.

    Returns:
        uint16 (1, H, W): samples as FFmpeg decoded them, in the low bits, neither scaled nor converted. A 12-bit
        video gives 0 to 4095.

    Raises:
        UnsupportedVideoError: the pixel format is neither gray nor planar YUV.
        ValueError: the crop is empty or reaches outside the picture, or `out` has another shape or dtype.
    """
    layout = planar_layout(frame.format.name)
    if layout is None or layout.kind not in ("yuv", "gray"):
        raise UnsupportedVideoError(
            f"{name}: pixel format {frame.format.name} has neither gray nor luma samples, which output='gray16' "
            f"needs. Use output='rgb', or re-encode with -pix_fmt gray12le."
        )
    return _samples(frame, layout, info, name, np.dtype(np.uint16), 1, out, crop)


def _samples(
    frame: Any,
    layout: PlanarLayout,
    info: StreamInfo,
    name: str,
    dtype: np.dtype[Any],
    count: int,
    out: SampleArray | None,
    crop: Crop | None,
) -> SampleArray:
    region = coded_crop(crop, (frame.height, frame.width), info.orientation, name)
    planes = [
        oriented(full_size(plane_samples(frame, k, layout), k, layout, region), info.orientation) for k in range(count)
    ]
    shape = (count, *planes[0].shape)
    if out is None:
        out = np.empty(shape, dtype)
    elif out.shape != shape or out.dtype != dtype:
        raise ValueError(f"{name}: out must be {dtype} {shape}, got {out.dtype} {out.shape}")
    for place, plane in zip(out, planes, strict=True):
        place[:] = plane
    return out
