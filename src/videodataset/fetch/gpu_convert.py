"""Planes in device memory to the places that pictures are wanted in."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import numpy.typing as npt
import torch

from videodataset.convert.color import ColorDescription
from videodataset.convert.device import SampleLayout, coded_samples, cropped, finished, rgb_of, turned
from videodataset.convert.fused import fused_convert, picture_template
from videodataset.fetch.ask import Ask, Output
from videodataset.index.model import Orientation


@dataclass(slots=True)
class PicturesToConvert:
    """Pictures of one format that are converted alike.

    Attributes:
        planes: Y, and unless gray Cb and Cr, each (N, h, w) on the GPU, as `convert.device.samples` takes them.
        layout: what the samples are.
        color: what they mean; None where they are not converted to RGB.
        orientation: how the coded picture becomes the displayed one.
        output: what is made of them.
        rows: which of the N pictures are converted.
        places: where they go: an ask, the row of its memory that gets the first, how many.
    """

    planes: Sequence[torch.Tensor]
    layout: SampleLayout
    color: ColorDescription | None
    orientation: Orientation
    output: Output
    rows: list[int] = field(default_factory=list)
    places: list[tuple[Ask, int, int]] = field(default_factory=list)


def convert_on_gpu(groups: Sequence[PicturesToConvert]) -> None:
    """Convert pictures on the current stream, and write each to its place: to RGB in one launch, whatever they are."""
    to_rgb = [group for group in groups if group.output.kind == "rgb" and group.rows]
    kernel = fused_convert(to_rgb[0].planes[0].device.index) if to_rgb else None
    if kernel is not None:
        kernel.convert(np.concatenate([_records(group) for group in to_rgb]))
    for group in groups:
        if group.output.kind != "rgb" or kernel is None:
            _convert_by_torch(group)


def _records(group: PicturesToConvert) -> npt.NDArray[Any]:
    """The kernel's table of a group's pictures."""
    assert group.color is not None
    template = picture_template(group.planes, group.layout, group.color, group.orientation, group.output.transform)
    records = np.repeat(template[None], len(group.rows))
    rows = np.array(group.rows, np.uint64)
    for k, plane in enumerate(group.planes):
        records["plane"][:, k] += rows * np.uint64(plane.stride(0) * plane.element_size())
    places, memories = [], dict[int, tuple[int, ...]]()
    for ask, first, count in group.places:
        if ask.out is None:
            ask.out = group.output.allocate((1,), ask.video.index, group.planes[0].device)
        memory = memories.get(id(ask.out))
        if memory is None:
            memory = memories[id(ask.out)] = _memory(ask.out, group.output)
        start, next_picture, *strides = memory
        places += [(start + row * next_picture, *strides) for row in range(first, first + count)]
    columns = np.array(places, np.int64).T
    records["out"], records["out_channel"], records["out_row"], records["out_column"] = columns
    return records


def _memory(out: torch.Tensor, output: Output) -> tuple[int, int, int, int, int]:
    """Address; bytes from picture to picture; elements from channel to channel, row to row, column to column."""
    first, *strides = out.stride()
    channel, row, column = strides if output.transform.dimension_order == "NCHW" else (strides[2], *strides[:2])
    return out.data_ptr(), first * out.element_size(), channel, row, column


def _convert_by_torch(group: PicturesToConvert) -> None:
    planes = group.planes
    if group.rows != list(range(len(planes[0]))):
        rows = torch.tensor(group.rows, device=planes[0].device)
        planes = [plane[rows] for plane in planes]
    if group.output.kind == "rgb":
        assert group.color is not None
        pictures = rgb_of(planes, group.layout, group.color)
    else:
        pictures = coded_samples(planes, group.layout, group.output.kind)
    place(turned(pictures, group.orientation), group.output, group.places)


def place(pictures: torch.Tensor, output: Output, places: Sequence[tuple[Ask, int, int]]) -> None:
    """Finish displayed pictures (N, C, H, W), and write each to its place."""
    pictures = cropped(pictures, output.transform, "crop")
    if output.kind == "rgb":
        pictures = finished(pictures, output.transform)
    channels_first = output.transform.dimension_order == "NCHW"
    laid_out = pictures if channels_first else pictures.permute(0, 2, 3, 1)
    at = 0
    for ask, first, count in places:
        part = laid_out[at : at + count]
        at += count
        if ask.out is None:
            ask.out = part
        else:
            ask.out[first : first + count].copy_(part)
