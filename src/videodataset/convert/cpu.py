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
from videodataset.convert.crop import Crop, coded_crop
from videodataset.convert.layout import PlanarLayout, full_size, planar_layout, plane_samples
from videodataset.convert.swscale import scale_to_rgb
from videodataset.errors import UnsupportedVideoError
from videodataset.index.model import Orientation, StreamInfo

_SWSCALE_FORMATS = frozenset(("yuv420p", "yuvj420p", "yuv422p", "yuvj422p"))
_PACKED_RGB = frozenset(("rgb24", "bgr24", "rgba", "bgra", "argb", "abgr", "rgb0", "bgr0", "0rgb", "0bgr"))

#: The formula is evaluated on so many pixels at a time: its intermediate values then stay in the processor's cache.
_BAND_PIXELS = 1 << 15

RgbArray = npt.NDArray[np.uint8]


def to_rgb(frame: Any, info: StreamInfo, name: str, out: RgbArray | None = None, crop: Crop | None = None) -> RgbArray:
    """Convert one decoded picture, or a part of it, turned as the display matrix says.

    Only the part is read and converted, up to whole chroma samples and swscale's groups of pixels; the values are
    those of the whole picture, cropped.

    Args:
        frame: an `av.VideoFrame`.
        info: the stream; its colour tags serve where the picture itself has none.
        name: the source, for messages.
        out: uint8 (H, W, 3), of the displayed size or the crop's, to write to, of any strides; None gives a new array.
        crop: (top, left, height, width) in pixels of the displayed picture; None is all of it.

    Returns:
        uint8 (H, W, 3): `out`, or an array of its own memory.

    Raises:
        UnsupportedVideoError: a pixel format or colour matrix without a conversion.
        ValueError: the crop is empty or reaches outside the picture, or `out` has another shape or dtype.
    """
    pixel_format = frame.format.name
    orientation = info.orientation
    turned = orientation.transpose or orientation.flip_x or orientation.flip_y
    region = coded_crop(crop, (frame.height, frame.width), orientation, name)
    top, left, height, width = region
    shape = (width, height, 3) if orientation.transpose else (height, width, 3)
    if out is not None and (out.shape != shape or out.dtype != np.uint8):
        raise ValueError(f"{name}: out must be uint8 {shape}, got {out.dtype} {out.shape}")
    # swscale writes rows of packed pixels.
    direct = out is not None and not turned and out.strides[1:] == (3, 1)
    target = out if out is not None and direct else np.empty((height, width, 3), np.uint8)
    if pixel_format in _PACKED_RGB:
        target[:] = _packed_rgb(frame)[top : top + height, left : left + width]
    else:
        color = color_description(
            info.color_matrix if frame.colorspace == UNSPECIFIED_MATRIX else frame.colorspace,
            frame.color_range or info.color_range,
            pixel_format,
            name,
        )
        if pixel_format in _SWSCALE_FORMATS and frame.height % 2 == 0:
            scale_to_rgb(frame, color, target, region)
        else:
            _formula(frame, _layout_of(pixel_format, name), color, target, region)
    if out is None and not turned:
        return target
    if out is None:
        return np.ascontiguousarray(oriented(target, orientation))
    if not direct:
        out[:] = oriented(target, orientation)
    return out


def check_convertible(info: StreamInfo, name: str) -> None:
    """Raise what `to_rgb` would, from the stream's tags alone.

    Raises:
        UnsupportedVideoError: a pixel format or colour matrix without a conversion.
    """
    pixel_format = info.pixel_format
    if pixel_format is None or pixel_format in _PACKED_RGB:
        return
    color_description(info.color_matrix, info.color_range, pixel_format, name)
    if pixel_format not in _SWSCALE_FORMATS:
        _layout_of(pixel_format, name)


def _layout_of(pixel_format: str, name: str) -> PlanarLayout:
    layout = planar_layout(pixel_format)
    if layout is None:
        raise UnsupportedVideoError(
            f"{name}: pixel format {pixel_format} has no conversion to RGB. Re-encode with -pix_fmt yuv420p."
        )
    return layout


def oriented(picture: npt.NDArray[Any], orientation: Orientation) -> npt.NDArray[Any]:
    """Return (H, W) or (H, W, channels) turned and mirrored to the displayed picture, as a view."""
    if orientation.transpose:
        picture = picture.swapaxes(0, 1)
    if orientation.flip_x:
        picture = picture[:, ::-1]
    if orientation.flip_y:
        picture = picture[::-1]
    return picture


def _packed_rgb(frame: Any) -> RgbArray:
    """Reorder the bytes of a packed RGB picture, which involves no conversion."""
    # One thread: FFmpeg's own slice threads would be a pool for each picture, and would not survive a fork.
    plane: Any = VideoReformatter().reformat(frame, format="rgb24", threads=1).planes[0]
    lines = np.frombuffer(plane, np.uint8)
    return np.ndarray((frame.height, frame.width, 3), np.uint8, lines, strides=(plane.line_size, 3, 1))


def _formula(frame: Any, layout: PlanarLayout, color: ColorDescription, out: RgbArray, crop: Crop) -> None:
    """The definition in `color`, in float32: at most 1 code off the float64 one, in the last rounding."""
    planes = [plane_samples(frame, number, layout) for number in range(1 if layout.kind == "gray" else 3)]
    top, left, height, width = crop
    step = max(1, _BAND_PIXELS // width)
    for row in range(0, height, step):
        band = (top + row, left, min(step, height - row), width)
        _formula_band([full_size(plane, k, layout, band) for k, plane in enumerate(planes)], layout, color, out[row:])


def _formula_band(
    samples: list[npt.NDArray[np.generic]], layout: PlanarLayout, color: ColorDescription, out: RgbArray
) -> None:
    first, *chroma = (plane.astype(np.float32) for plane in samples)
    if layout.kind == "gbr":
        green, blue, red = (plane * np.float32(255 / (2**layout.depth - 1)) for plane in (first, *chroma))
    else:
        luma_offset, luma_span, middle, chroma_span = color.spans(layout.depth)
        luma = (first - np.float32(luma_offset)) * np.float32(255 / luma_span)
        if layout.kind == "gray":
            red = green = blue = luma
        else:
            scale = np.float32(255 / chroma_span)
            cb, cr = ((plane - np.float32(middle)) * scale for plane in chroma)
            kr, kb = color.luma_weights
            red = luma + np.float32(2 * (1 - kr)) * cr
            blue = luma + np.float32(2 * (1 - kb)) * cb
            green = (luma - np.float32(kr) * red - np.float32(kb) * blue) * np.float32(1 / (1 - kr - kb))
    for channel, values in enumerate((red, green, blue)):
        out[: len(values), :, channel] = np.clip(np.rint(values), 0, 255)
