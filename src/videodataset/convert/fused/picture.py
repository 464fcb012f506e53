"""The kernel's table: one record for each picture of a batch."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
import torch

from videodataset.convert.color import ColorDescription
from videodataset.convert.device import SampleLayout
from videodataset.convert.transform import Transform
from videodataset.index.model import Orientation

#: A picture, as struct `Picture` in kernel.cu, where the fields are described.
PICTURE = np.dtype(
    [
        ("plane", np.uint64, 3),
        ("out", np.uint64),
        ("out_channel", np.int64),
        ("out_row", np.int64),
        ("out_column", np.int64),
        ("pitch", np.int32, 3),
        ("chroma_step", np.int32),
        ("chroma_shift_x", np.int32),
        ("chroma_shift_y", np.int32),
        ("sample_bytes", np.int32),
        ("sample_shift", np.int32),
        ("gray", np.int32),
        ("transpose", np.int32),
        ("flip_x", np.int32),
        ("flip_y", np.int32),
        ("shown_height", np.int32),
        ("shown_width", np.int32),
        ("crop_top", np.int32),
        ("crop_left", np.int32),
        ("crop_height", np.int32),
        ("crop_width", np.int32),
        ("resized_height", np.int32),
        ("resized_width", np.int32),
        ("top", np.int32),
        ("left", np.int32),
        ("out_height", np.int32),
        ("out_width", np.int32),
        ("bicubic", np.int32),
        ("mirror", np.int32),
        ("dtype", np.int32),
        ("fill", np.float32, 3),
        ("luma_offset", np.float32),
        ("luma_scale", np.float32),
        ("chroma_offset", np.float32),
        ("red_cr", np.float32),
        ("green_cb", np.float32),
        ("green_cr", np.float32),
        ("blue_cb", np.float32),
        ("factor", np.float32, 3),
        ("offset", np.float32, 3),
    ],
    align=True,
)
_DTYPES = {torch.uint8: 0, torch.float16: 1, torch.bfloat16: 2, torch.float32: 3}


def picture_template(
    planes: Sequence[torch.Tensor],
    layout: SampleLayout,
    color: ColorDescription,
    orientation: Orientation,
    transform: Transform,
) -> npt.NDArray[Any]:
    """Return the record of pictures that are converted alike, all but the addresses and strides of the result.

    Args:
        planes: Y, and unless gray Cb and Cr, each (N, h, w), as `convert.device.samples` takes them; `plane` holds the
            addresses of the first picture.
        layout: what the samples are.
        color: what they mean.
        orientation: how the coded picture becomes the displayed one.
        transform: what is made of it.

    Returns:
        PICTURE, no dimensions.
    """
    record = np.zeros((), PICTURE)
    height, width = planes[0].shape[1:]
    record["sample_bytes"] = planes[0].element_size()
    record["sample_shift"] = 16 - layout.depth if layout.in_high_bits and layout.depth > 8 else 0
    for k, plane in enumerate(planes):
        record["plane"][k] = plane.data_ptr()
        record["pitch"][k] = plane.stride(1) * plane.element_size()
    record["gray"] = len(planes) == 1
    if len(planes) > 1:
        record["chroma_step"] = planes[1].stride(2)
        record["chroma_shift_y"] = int(planes[1].shape[1] < height)
        record["chroma_shift_x"] = int(planes[1].shape[2] < width)
    record["transpose"], record["flip_x"] = orientation.transpose, orientation.flip_x
    record["flip_y"] = orientation.flip_y
    shown = (width, height) if orientation.transpose else (height, width)
    record["shown_height"], record["shown_width"] = shown
    crop = transform.crop or (0, 0, *shown)
    record["crop_top"], record["crop_left"], record["crop_height"], record["crop_width"] = crop
    placement = transform.placement(crop[2], crop[3])
    record["resized_height"], record["resized_width"] = placement.resized
    record["top"], record["left"] = placement.top, placement.left
    record["out_height"], record["out_width"] = placement.output
    record["bicubic"] = transform.interpolation == "bicubic"
    record["mirror"], record["dtype"] = transform.flip, _DTYPES[transform.dtype]
    record["fill"] = transform.fill
    _set_color(record, layout, color)
    if transform.dtype != torch.uint8:
        std = np.array(transform.std or (1.0,) * 3)
        record["factor"] = 1 / (255 * std)
        record["offset"] = -np.array(transform.mean or (0.0,) * 3) / std
    return record


def _set_color(record: npt.NDArray[Any], layout: SampleLayout, color: ColorDescription) -> None:
    luma_offset, luma_span, middle, chroma_span = color.spans(layout.depth)
    kr, kb = color.luma_weights
    green, scale = 1 - kr - kb, 255 / chroma_span
    record["luma_offset"], record["luma_scale"] = luma_offset, 255 / luma_span
    record["chroma_offset"] = middle
    record["red_cr"], record["blue_cb"] = 2 * (1 - kr) * scale, 2 * (1 - kb) * scale
    record["green_cb"] = -2 * kb * (1 - kb) / green * scale
    record["green_cr"] = -2 * kr * (1 - kr) / green * scale
