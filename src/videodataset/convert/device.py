"""Convert on a GPU by torch's operations: planes of many pictures to what was asked for, following `color`.

Works on any device that torch computes on, so its definition is tested without a GPU too.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch.nn import functional as F

from videodataset.convert.color import ColorDescription
from videodataset.convert.crop import check_crop
from videodataset.convert.transform import Placement, Transform
from videodataset.index.model import Orientation


@dataclass(frozen=True, slots=True)
class SampleLayout:
    """What the samples of planes are.

    Attributes:
        depth: bits per sample.
        in_high_bits: whether 16-bit samples have their value in the high bits (the hardware's) or the low (FFmpeg's).
    """

    depth: int
    in_high_bits: bool


def samples(plane: torch.Tensor, layout: SampleLayout) -> torch.Tensor:
    """Return samples as whole numbers in the low bits: uint8, or int32 for more than 8 bits.

    Args:
        plane: uint8, or int16 whose bits are those of an unsigned number.
        layout: what they are.
    """
    if plane.dtype == torch.uint8:
        return plane
    values = plane.to(torch.int32) & 0xFFFF
    return values >> (16 - layout.depth) if layout.in_high_bits else values


def full_size(chroma: torch.Tensor, height: int, width: int) -> torch.Tensor:
    """Repeat chroma (N, h, w) to the size of luma."""
    if chroma.shape[1] < height:
        chroma = chroma.repeat_interleave(2, 1)[:, :height]
    if chroma.shape[2] < width:
        chroma = chroma.repeat_interleave(2, 2)[:, :, :width]
    return chroma


def rgb_of(planes: Sequence[torch.Tensor], layout: SampleLayout, color: ColorDescription) -> torch.Tensor:
    """Convert pictures of one size.

    Args:
        planes: Y, and unless gray Cb and Cr, each (N, h, w), as `samples` takes them.
        layout: what the samples are.
        color: what they mean.

    Returns:
        uint8 (N, 3, H, W), rounded once and clamped.
    """
    luma_offset, luma_span, middle, chroma_span = color.spans(layout.depth)
    luma = (samples(planes[0], layout).float() - luma_offset) * (255 / luma_span)
    if len(planes) == 1:
        rgb = luma[:, None].expand(-1, 3, -1, -1)
    else:
        height, width = luma.shape[1:]
        cb, cr = (
            full_size((samples(plane, layout).float() - middle) * (255 / chroma_span), height, width)
            for plane in planes[1:]
        )
        kr, kb = color.luma_weights
        red = luma + 2 * (1 - kr) * cr
        blue = luma + 2 * (1 - kb) * cb
        green = (luma - kr * red - kb * blue) / (1 - kr - kb)
        rgb = torch.stack([red, green, blue], 1)
    return rgb.round().clamp(0, 255).to(torch.uint8)


def coded_samples(planes: Sequence[torch.Tensor], layout: SampleLayout, kind: str) -> torch.Tensor:
    """Return samples without conversion: "yuv" (N, 3, H, W), or "gray16" (N, 1, H, W), whole numbers."""
    luma = samples(planes[0], layout)
    if kind == "gray16":
        return luma[:, None].to(torch.int32)
    height, width = luma.shape[1:]
    return torch.stack([luma, *(full_size(samples(plane, layout), height, width) for plane in planes[1:])], 1)


def turned(pictures: torch.Tensor, orientation: Orientation) -> torch.Tensor:
    """Turn and mirror (N, C, H, W) to the displayed pictures."""
    if orientation.transpose:
        pictures = pictures.transpose(2, 3)
    axes = [axis for axis, flip in ((3, orientation.flip_x), (2, orientation.flip_y)) if flip]
    return pictures.flip(axes) if axes else pictures


def cropped(pictures: torch.Tensor, transform: Transform, name: str) -> torch.Tensor:
    """Cut the transform's crop out of displayed pictures (N, C, H, W)."""
    if transform.crop is None:
        return pictures
    check_crop(transform.crop, (pictures.shape[2], pictures.shape[3]), name)
    top, left, height, width = transform.crop
    return pictures[:, :, top : top + height, left : left + width]


def finished(pictures: torch.Tensor, transform: Transform) -> torch.Tensor:
    """Resize, flip, scale and normalise uint8 (N, 3, H, W), already cropped; gives (N, 3, h, w) of the dtype."""
    placement = transform.placement(pictures.shape[2], pictures.shape[3])
    if placement.resized != tuple(pictures.shape[2:]):
        resized = F.interpolate(pictures.float(), placement.resized, mode=transform.interpolation, antialias=True)
        pictures = resized.round_().clamp_(0, 255).to(torch.uint8)
    if placement.resized != placement.output:
        pictures = _placed(pictures, placement, transform.fill)
    if transform.flip:
        pictures = pictures.flip(3)
    if transform.dtype == torch.uint8:
        return pictures
    values = pictures.float() / 255
    if transform.mean is not None:
        values = values - pictures.new_tensor(transform.mean, dtype=torch.float32)[:, None, None]
    if transform.std is not None:
        values = values / pictures.new_tensor(transform.std, dtype=torch.float32)[:, None, None]
    return values.to(transform.dtype)


def _placed(pictures: torch.Tensor, placement: Placement, fill: int | tuple[int, int, int]) -> torch.Tensor:
    """Cut the middle out of resized pictures, or put a frame round them."""
    (height, width), (rows, columns) = placement.output, placement.resized
    if placement.top < 0 or placement.left < 0:
        return pictures[:, :, -placement.top :, -placement.left :][:, :, :height, :width]
    colour = pictures.new_tensor(fill if isinstance(fill, tuple) else (fill,) * 3)
    canvas = colour[None, :, None, None].repeat(len(pictures), 1, height, width)
    canvas[:, :, placement.top : placement.top + rows, placement.left : placement.left + columns] = pictures
    return canvas
