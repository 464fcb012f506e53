"""Finish on the CPU: RGB frames to what the user asked for."""

from __future__ import annotations

from functools import lru_cache

import numpy as np
import numpy.typing as npt
import torch

from videodataset.convert.resize import resize
from videodataset.convert.transform import Placement, Transform


def finish(frames: torch.Tensor, transform: Transform, out: torch.Tensor | None = None) -> torch.Tensor:
    """Resize, flip, scale, normalise and lay out frames of one size.

    `transform.crop` is not applied here: `to_rgb` takes it, so that nothing outside it is converted. Frames whose crop,
    size or flip differ are finished one call each, with `out=batch[i : i + 1]`.

    Args:
        frames: uint8 (N, H, W, 3) on the CPU, turned, cropped and converted.
        transform: what to do.
        out: where to write, (N, 3, h, w), or (N, h, w, 3) with "NHWC", of the transform's dtype on the CPU, with any
            strides; None makes a contiguous tensor.

    Returns:
        `out`, or the new tensor. It never shares memory with `frames`.

    Raises:
        ValueError: `frames` or `out` has another shape or dtype.
    """
    if frames.dtype != torch.uint8 or frames.ndim != 4 or frames.shape[3] != 3:
        raise ValueError(f"frames must be uint8 (N, H, W, 3), got {frames.dtype} {tuple(frames.shape)}")
    placement = transform.placement(frames.shape[1], frames.shape[2])
    height, width = placement.output
    channels_first = transform.dimension_order == "NCHW"
    shape = (len(frames), 3, height, width) if channels_first else (len(frames), height, width, 3)
    if out is None:
        out = torch.empty(shape, dtype=transform.dtype)
    elif tuple(out.shape) != shape or out.dtype != transform.dtype:
        raise ValueError(
            f"out must be {transform.dtype} {shape} for this transform, got {out.dtype} {tuple(out.shape)}"
        )
    # One frame at a time: the intermediate values of one stay in the processor's cache, those of a batch do not.
    for frame, place in zip(frames, out, strict=True):
        pixels = _placed(resize(frame, placement.resized, transform.interpolation), placement, transform)
        if transform.flip:
            pixels = pixels[:, ::-1]
        if channels_first:
            pixels = pixels.transpose(2, 0, 1)
        if transform.dtype == torch.uint8:
            place.numpy()[:] = pixels  # numpy transposes bytes in half the time that torch takes
        else:
            place.copy_(_scaled(torch.from_numpy(np.ascontiguousarray(pixels)), transform))
    return out


def _placed(resized: torch.Tensor, placement: Placement, transform: Transform) -> npt.NDArray[np.uint8]:
    """Cut the middle out of a resized frame, or put a frame round it; uint8 (h, w, 3)."""
    pixels = resized.numpy()
    height, width = placement.output
    if placement.resized == placement.output:
        return pixels
    if placement.top < 0 or placement.left < 0:
        return pixels[-placement.top :, -placement.left :][:height, :width]
    canvas = np.empty((height, width, 3), np.uint8)
    canvas[:] = transform.fill
    rows, columns = placement.resized
    canvas[placement.top : placement.top + rows, placement.left : placement.left + columns] = pixels
    return canvas


def _scaled(pixels: torch.Tensor, transform: Transform) -> torch.Tensor:
    """Contiguous uint8 to normalised float32, of the same shape: (3, h, w), or (h, w, 3) with "NHWC"."""
    channels_first = transform.dimension_order == "NCHW"
    factor, offset = _factor_and_offset(transform.mean, transform.std)
    values = pixels.to(torch.float32)
    if channels_first:
        values.mul_(factor[:, None, None])
        return values.add_(offset[:, None, None]) if transform.mean is not None else values
    # Whole rows: torch's vector code is not used for a last dimension of 3.
    height, width, _ = pixels.shape
    rows = values.view(height, width * 3)
    rows.mul_(factor.repeat(width))
    if transform.mean is not None:
        rows.add_(offset.repeat(width))
    return values


@lru_cache(maxsize=64)
def _factor_and_offset(
    mean: tuple[float, ...] | None, std: tuple[float, ...] | None
) -> tuple[torch.Tensor, torch.Tensor]:
    """(x / 255 - mean) / std as x * factor + offset; float32 (3,) each."""
    mean_, std_ = np.asarray(mean or (0.0,) * 3), np.asarray(std or (1.0,) * 3)
    return torch.from_numpy((1 / (255 * std_)).astype(np.float32)), torch.from_numpy((-mean_ / std_).astype(np.float32))
