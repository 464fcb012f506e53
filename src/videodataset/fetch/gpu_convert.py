"""Planes in device memory to the places that pictures are wanted in."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

import torch

from videodataset.convert.color import ColorDescription
from videodataset.convert.device import SampleLayout, coded_samples, cropped, finished, rgb_of, turned
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
        places: where each goes: an ask, and the row of it.
    """

    planes: Sequence[torch.Tensor]
    layout: SampleLayout
    color: ColorDescription | None
    orientation: Orientation
    output: Output
    rows: list[int] = field(default_factory=list)
    places: list[tuple[Ask, int]] = field(default_factory=list)


def convert_on_gpu(groups: Iterable[PicturesToConvert]) -> None:
    """Convert pictures on the current stream, and write each to its place."""
    for group in groups:
        _convert_by_torch(group)


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


def place(pictures: torch.Tensor, output: Output, places: Sequence[tuple[Ask, int]]) -> None:
    """Finish displayed pictures (N, C, H, W), and write each to its place."""
    pictures = cropped(pictures, output.transform, "crop")
    if output.kind == "rgb":
        pictures = finished(pictures, output.transform)
    channels_first = output.transform.dimension_order == "NCHW"
    laid_out = pictures if channels_first else pictures.permute(0, 2, 3, 1)
    for (ask, row), picture in zip(places, laid_out, strict=True):
        if ask.out is None:
            ask.out = picture[None]
        else:
            ask.out[row].copy_(picture)
