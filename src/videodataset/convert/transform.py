"""What is done to decoded frames before they are returned: the definition that every form of convert follows.

turn, mirror -> crop -> RGB, rounded -> resize, rounded -> flip -> [0, 1] -> (x - mean) / std -> dtype -> layout
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Literal

import torch

from videodataset.convert.crop import Crop, check_crop

_DTYPES = (torch.uint8, torch.float16, torch.bfloat16, torch.float32)


@dataclass(frozen=True, slots=True)
class Placement:
    """Where the resized picture goes.

    Attributes:
        resized: (height, width) that the cropped frame is scaled to.
        output: (height, width) of the result.
        top: row of the result that gets the first resized row; negative where rows are cut off ("shorter").
        left: the same for columns.
    """

    resized: tuple[int, int]
    output: tuple[int, int]
    top: int = 0
    left: int = 0


@dataclass(frozen=True)
class Transform:
    """Crop, resize, flip, normalise, in that order; the default changes nothing.

    The frame is turned and mirrored by the display matrix, cropped, converted to RGB and rounded, resized and rounded
    again, flipped, scaled to [0, 1] if `dtype` is a floating one, normalised, and laid out. Nothing outside the crop
    is read. Objects are immutable, hashable and picklable; `dataclasses.replace` makes changed ones.

    Args:
        size: (height, width) in pixels, or an int: the shorter side with resize="shorter", else a square. None does
            not resize.
        resize: "stretch" scales to `size`, whatever the shape. "shorter" keeps the shape: with an int the shorter
            side becomes `size` and the longer one follows, rounded down, as torchvision's `Resize(int)`; with
            (height, width) the frame is scaled until it covers `size`, and the middle of `size` is cut out. "letterbox"
            keeps the shape too: the frame is scaled to fit into `size` and the rest, half on either side, is `fill`.
        interpolation: "bilinear" or "bicubic", both antialiased.
        crop: (top, left, height, width) in pixels of the displayed frame, before resizing.
        flip: mirror left-right.
        dtype: torch.uint8, with values 0 to 255, or torch.float16, bfloat16 or float32, with values 0 to 1.
        mean: three numbers on the [0, 1] scale, subtracted from R, G, B; needs a floating dtype.
        std: three numbers on the [0, 1] scale by which R, G, B are then divided; needs a floating dtype.
        dimension_order: "NCHW" or "NHWC".
        fill: colour of the letterbox, 0 to 255, one number or three for R, G, B; it is normalised like the picture.

    Raises:
        ValueError: an argument has no meaning, alone or with the others.
    """

    size: tuple[int, int] | int | None = None
    resize: Literal["stretch", "shorter", "letterbox"] = "stretch"
    interpolation: Literal["bilinear", "bicubic"] = "bilinear"
    crop: Crop | None = None
    flip: bool = False
    dtype: torch.dtype = torch.uint8
    mean: Sequence[float] | None = None
    std: Sequence[float] | None = None
    dimension_order: Literal["NCHW", "NHWC"] = "NCHW"
    fill: int | tuple[int, int, int] = 0

    def __post_init__(self) -> None:
        """Check the arguments, and make those hashable that were given as lists."""
        _check_choice("resize", self.resize, ("stretch", "shorter", "letterbox"))
        _check_choice("interpolation", self.interpolation, ("bilinear", "bicubic"))
        _check_choice("dimension_order", self.dimension_order, ("NCHW", "NHWC"))
        if self.dtype not in _DTYPES:
            raise ValueError(f"dtype must be one of {', '.join(map(str, _DTYPES))}, got {self.dtype!r}")
        if self.size is not None:
            object.__setattr__(self, "size", _checked_size(self.size))
        elif self.resize != "stretch":
            raise ValueError(f"resize={self.resize!r} needs a size, got None. Give size=(height, width) or an int.")
        if self.crop is not None:
            object.__setattr__(self, "crop", _checked_crop(self.crop))
        object.__setattr__(self, "fill", _checked_fill(self.fill))
        for name in ("mean", "std"):
            values = getattr(self, name)
            if values is None:
                continue
            if not self.dtype.is_floating_point:
                raise ValueError(f"{name} needs a floating dtype, got {self.dtype}. Add dtype=torch.float32.")
            object.__setattr__(self, name, _checked_channels(name, values))
        if self.std is not None and min(self.std) <= 0:
            raise ValueError(f"std must be greater than 0 in every channel, got {self.std}")

    def output_size(self, height: int, width: int) -> tuple[int, int]:
        """Return (height, width) of what a displayed frame of this height and width becomes; nothing is decoded.

        Raises:
            ValueError: the crop is not inside such a frame.
        """
        if self.crop is not None:
            check_crop(self.crop, (height, width), "Transform")
            height, width = self.crop[2:]
        return self.placement(height, width).output

    def placement(self, height: int, width: int) -> Placement:
        """Return how a frame of this height and width, already cropped, is scaled and where it is put."""
        if self.size is None:
            return Placement((height, width), (height, width))
        if isinstance(self.size, int) and self.resize == "shorter":
            longer = self.size * max(height, width) // min(height, width)
            resized = (self.size, longer) if height <= width else (longer, self.size)
            return Placement(resized, resized)
        size = (self.size, self.size) if isinstance(self.size, int) else self.size
        if self.resize == "stretch":
            return Placement(size, size)
        wide = width * size[0] > height * size[1]  # wider than `size` is
        if self.resize == "shorter":
            resized = (size[0], width * size[0] // height) if wide else (height * size[1] // width, size[1])
            # Halves are rounded to even, as torchvision's center_crop does.
            return Placement(resized, size, -round((resized[0] - size[0]) / 2), -round((resized[1] - size[1]) / 2))
        if wide:
            resized = (max(1, (2 * height * size[1] + width) // (2 * width)), size[1])
        else:
            resized = (size[0], max(1, (2 * width * size[0] + height) // (2 * height)))
        return Placement(resized, size, (size[0] - resized[0]) // 2, (size[1] - resized[1]) // 2)


def _check_choice(name: str, value: object, known: tuple[str, ...]) -> None:
    if value not in known:
        raise ValueError(f"{name} must be one of {', '.join(map(repr, known))}, got {value!r}")


def _checked_size(size: object) -> int | tuple[int, int]:
    values = [size] if isinstance(size, int) else list(size) if isinstance(size, (tuple, list)) else []
    if not values or len(values) > 2 or not all(_is_int(v) and v >= 1 for v in values):
        raise ValueError(f"size must be (height, width), or an int, of at least 1 pixel, got {size!r}")
    return values[0] if isinstance(size, int) else _pair(values, size)


def _pair(values: list[int], given: object) -> tuple[int, int]:
    if len(values) != 2:
        raise ValueError(f"size must be (height, width) or an int, got {given!r}. For a square write size={values[0]}.")
    return values[0], values[1]


def _checked_crop(crop: Sequence[int]) -> Crop:
    if not isinstance(crop, (tuple, list)) or len(crop) != 4 or not all(map(_is_int, crop)):
        raise ValueError(f"crop must be four ints, (top, left, height, width), got {crop!r}")
    top, left, height, width = crop
    if top < 0 or left < 0 or height < 1 or width < 1:
        raise ValueError(
            f"crop must begin inside the frame and hold a pixel, got top={top}, left={left}, height={height}, "
            f"width={width}. The order is (top, left, height, width)."
        )
    return top, left, height, width


def _checked_channels(name: str, values: Sequence[float]) -> tuple[float, ...]:
    try:
        numbers = tuple(float(value) for value in values)
    except (TypeError, ValueError) as error:
        raise ValueError(f"{name} must be three numbers, for R, G and B, got {values!r}") from error
    if len(numbers) != 3 or not all(map(math.isfinite, numbers)):
        raise ValueError(f"{name} must be three finite numbers, for R, G and B, got {values!r}")
    return numbers


def _checked_fill(fill: Any) -> int | tuple[int, ...]:
    values = list(fill) if isinstance(fill, (tuple, list)) else [fill]
    if len(values) not in (1, 3) or not all(_is_int(value) and 0 <= value <= 255 for value in values):
        raise ValueError(f"fill must be one int from 0 to 255, or three for R, G, B, whatever the dtype; got {fill!r}")
    return values[0] if len(values) == 1 else tuple(values)


def _is_int(value: object) -> bool:
    return isinstance(value, int) and not isinstance(value, bool)
