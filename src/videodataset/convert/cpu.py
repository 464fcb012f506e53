"""Convert on the CPU: FFmpeg frame to RGB in memory.

swscale's unscaled path serves 8-bit 4:2:0 and 4:2:2: it repeats chroma, is several times faster than numpy, and is
what torchcodec gives, bit for bit. It takes even heights only; for everything else swscale interpolates chroma. There
the formula itself is evaluated.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt
from av.video.reformatter import VideoReformatter

from videodataset.convert.color import UNSPECIFIED_MATRIX, ColorDescription, color_description
from videodataset.convert.layout import PlanarLayout, planar_layout, plane_samples
from videodataset.convert.swscale import scale_to_rgb
from videodataset.errors import UnsupportedVideoError
from videodataset.index.model import Orientation, StreamInfo

_SWSCALE_FORMATS = frozenset(("yuv420p", "yuvj420p", "yuv422p", "yuvj422p"))
_PACKED_RGB = frozenset(("rgb24", "bgr24", "rgba", "bgra", "argb", "abgr", "rgb0", "bgr0", "0rgb", "0bgr"))

RgbArray = npt.NDArray[np.uint8]


def to_rgb(frame: Any, info: StreamInfo, name: str, out: RgbArray | None = None) -> RgbArray:
    """Convert one decoded picture, turned as the display matrix says.

    Args:
        frame: an `av.VideoFrame`.
        info: the stream; its colour tags serve where the picture itself has none.
        name: the source, for messages.
        out: uint8 (H, W, 3), displayed size, to write to; None gives a new array.

    Returns:
        uint8 (H, W, 3): `out`, or an array of its own memory.

    Raises:
        UnsupportedVideoError: a pixel format or colour matrix without a conversion.
    """
    pixel_format = frame.format.name
    turned = info.orientation != Orientation()
    shape = (frame.height, frame.width, 3)
    target = np.empty(shape, np.uint8) if out is None or turned else out
    if pixel_format in _PACKED_RGB:
        target[:] = _packed_rgb(frame)
    else:
        color = color_description(
            info.color_matrix if frame.colorspace == UNSPECIFIED_MATRIX else frame.colorspace,
            frame.color_range or info.color_range,
            pixel_format,
            name,
        )
        if pixel_format in _SWSCALE_FORMATS and frame.height % 2 == 0:
            scale_to_rgb(frame, color, target)
        else:
            layout = planar_layout(pixel_format)
            if layout is None:
                raise UnsupportedVideoError(
                    f"{name}: pixel format {pixel_format} has no conversion to RGB. Re-encode with -pix_fmt yuv420p."
                )
            _formula(frame, layout, color, target)
    if not turned:
        return target
    if out is None:
        return np.ascontiguousarray(oriented(target, info.orientation))
    out[:] = oriented(target, info.orientation)
    return out


def oriented(rgb: RgbArray, orientation: Orientation) -> RgbArray:
    """Return (H, W, 3) turned and mirrored to the displayed picture, as a view."""
    if orientation.transpose:
        rgb = rgb.swapaxes(0, 1)
    if orientation.flip_x:
        rgb = rgb[:, ::-1]
    if orientation.flip_y:
        rgb = rgb[::-1]
    return rgb


def _packed_rgb(frame: Any) -> RgbArray:
    """Reorder the bytes of a packed RGB picture, which involves no conversion."""
    # One thread: FFmpeg's own slice threads would be a pool for each picture, and would not survive a fork.
    plane: Any = VideoReformatter().reformat(frame, format="rgb24", threads=1).planes[0]
    lines = np.frombuffer(plane, np.uint8)
    return np.ndarray((frame.height, frame.width, 3), np.uint8, lines, strides=(plane.line_size, 3, 1))


def _formula(frame: Any, layout: PlanarLayout, color: ColorDescription, out: RgbArray) -> None:
    """The definition in `color`, in float32: at most 1 code off the float64 one, in the last rounding."""
    planes = [plane_samples(frame, k, layout) for k in range(1 if layout.kind == "gray" else 3)]
    if layout.kind == "gbr":
        green, blue, red = (plane.astype(np.float32) * np.float32(255 / (2**layout.depth - 1)) for plane in planes)
    else:
        luma_offset, luma_span, middle, chroma_span = color.spans(layout.depth)
        luma = (planes[0].astype(np.float32) - np.float32(luma_offset)) * np.float32(255 / luma_span)
        if layout.kind == "gray":
            red = green = blue = luma
        else:
            scale = np.float32(255 / chroma_span)
            cb, cr = (
                _full_size((plane.astype(np.float32) - np.float32(middle)) * scale, luma.shape, layout)
                for plane in planes[1:]
            )
            kr, kb = color.luma_weights
            red = luma + np.float32(2 * (1 - kr)) * cr
            blue = luma + np.float32(2 * (1 - kb)) * cb
            green = (luma - np.float32(kr) * red - np.float32(kb) * blue) * np.float32(1 / (1 - kr - kb))
    for channel, values in enumerate((red, green, blue)):
        out[..., channel] = np.clip(np.rint(values), 0, 255)


def _full_size(
    chroma: npt.NDArray[np.float32], shape: tuple[int, ...], layout: PlanarLayout
) -> npt.NDArray[np.float32]:
    for axis, shift in ((0, layout.chroma_shift_y), (1, layout.chroma_shift_x)):
        if shift:
            chroma = chroma.repeat(1 << shift, axis=axis)
    return chroma[: shape[0], : shape[1]]
