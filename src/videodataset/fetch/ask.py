"""What is fetched: pictures, what is made of them, and where it goes."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Literal

import numpy as np
import numpy.typing as npt
import torch

from videodataset.convert import Transform
from videodataset.errors import NvdecUnavailableError, UnsupportedVideoError
from videodataset.index.model import VideoIndex
from videodataset.videos import Video

OutputKind = Literal["rgb", "yuv", "gray16"]


@dataclass(frozen=True)
class Output:
    """What is made of a picture.

    Attributes:
        kind: "rgb"; or the samples as they were coded, "yuv" (3, H, W) or "gray16" (1, H, W).
        transform: for "rgb" all of it applies, for the others its crop and its layout.
    """

    kind: OutputKind
    transform: Transform

    @cached_property
    def is_plain(self) -> bool:
        """Whether the colour conversion's own result is asked for: uint8 RGB, at most cropped."""
        transform = self.transform
        as_it_is = transform.size is None and not transform.flip and transform.dtype == torch.uint8
        return self.kind == "rgb" and as_it_is

    def size(self, index: VideoIndex) -> tuple[int, int]:
        """Return (height, width) of what is made of this video's pictures."""
        return self.transform.output_size(*index.displayed_size)

    def dtype(self, index: VideoIndex) -> torch.dtype:
        """Return the type of what is made of this video's pictures."""
        if self.kind == "rgb":
            return self.transform.dtype
        return torch.uint8 if self.kind == "yuv" and sample_depth(index) == 8 else torch.uint16

    def allocate(self, leading: tuple[int, ...], index: VideoIndex, device: torch.device) -> torch.Tensor:
        """Return memory for pictures of this video: (*leading, C, H, W), or (*leading, H, W, C) for "NHWC".

        Where pixels come from the colour conversion as they are, those of "NCHW" lie side by side too (channels last),
        so that nothing has to be moved afterwards.

        Raises:
            NvdecUnavailableError: a GPU's memory is exhausted.
        """
        channels = 1 if self.kind == "gray16" else 3
        dtype, (height, width) = self.dtype(index), self.size(index)
        if self.transform.dimension_order == "NHWC":
            return _empty((*leading, height, width, channels), dtype, device)
        if self.is_plain:
            return _empty((*leading, height, width, channels), dtype, device).movedim(-1, -3)
        return _empty((*leading, channels, height, width), dtype, device)


def _empty(shape: tuple[int, ...], dtype: torch.dtype, device: torch.device) -> torch.Tensor:
    try:
        return torch.empty(shape, dtype=dtype, device=device)
    except torch.OutOfMemoryError as error:
        raise NvdecUnavailableError(
            f"the memory of {device} is exhausted: {math.prod(shape) * dtype.itemsize} bytes for frames {shape} of "
            f"{dtype} do not fit. Free some, or ask for fewer frames at a time."
        ) from error


def sample_depth(index: VideoIndex) -> int:
    """Bits per sample of a video's pictures."""
    from videodataset.convert.layout import planar_layout

    layout = planar_layout(index.info.pixel_format or "")
    if layout is None:
        raise UnsupportedVideoError(f"pixel format {index.info.pixel_format} has no planes of one depth. Ask for rgb.")
    return layout.depth


@dataclass(slots=True)
class Ask:
    """Displayed frames of one video, wanted in one place.

    Attributes:
        video: the video.
        frames: int64 (n,), their numbers in the order in which they are wanted, repeats allowed.
        output: what is made of them.
        out: memory for them and those of other asks, (m, C, H, W), or (m, H, W, C) for "NHWC". None, with one frame
            only, gives the picture memory of its own, of the size that it comes in.
        first: the row of `out` where theirs begin.
    """

    video: Video
    frames: npt.NDArray[np.int64]
    output: Output
    out: torch.Tensor | None
    first: int = 0

    def pictures(self) -> list[int]:
        """Return the number of each frame's picture, in decode order of the stream."""
        if len(self.frames) == 1:
            return [self.video.index.rows.presentation[int(self.frames[0])]]
        pictures: list[int] = self.video.index.presentation[self.frames].tolist()
        return pictures


def first_error(ask: Ask, failed: Mapping[tuple[int, int], Exception]) -> Exception | None:
    """Return the error of the first of an ask's frames that has one; by (id of the index, picture)."""
    index = id(ask.video.index)
    return next((failed[index, picture] for picture in ask.pictures() if (index, picture) in failed), None)
