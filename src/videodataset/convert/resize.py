"""Resize on the CPU, antialiased, 8 bits in and out."""

from __future__ import annotations

from typing import Literal

import torch
from torch.nn import functional as F


def resize(
    frame: torch.Tensor, size: tuple[int, int], interpolation: Literal["bilinear", "bicubic"] = "bilinear"
) -> torch.Tensor:
    """Resize one frame.

    Bilinear takes torch's kernel for 8-bit pixels, which works on packed RGB as it lies in memory. Its bicubic
    sibling rounds and clamps between the two passes, which puts it off by up to 5 codes at sharp edges; so bicubic is
    computed in float32 and rounded and clamped once. So is a result one pixel wide: there the 8-bit kernel takes the
    packed layout for the planar one (torch 2.13) and gives wrong pixels or an internal error.

    Args:
        frame: uint8 (H, W, 3) on the CPU, of any strides.
        size: (height, width) to resize to.
        interpolation: "bilinear", within 1 of torchvision's result for uint8, or "bicubic", within 1 of its result
            for float32.

    Returns:
        uint8 (height, width, 3), packed; the frame itself where it already has that size.
    """
    if frame.shape[:2] == size:
        return frame
    # To torch: NCHW in channels_last. The new dimension comes first: its stride also tells torch the layout.
    batch = frame[None].permute(0, 3, 1, 2)
    if interpolation == "bilinear" and size[1] > 1:
        pixels = F.interpolate(batch, size, mode="bilinear", antialias=True)
    else:
        # By planes: torch's float kernel is a third slower on packed pixels.
        planes = batch.to(torch.float32, memory_format=torch.contiguous_format)
        pixels = F.interpolate(planes, size, mode=interpolation, antialias=True)
        pixels = pixels.round_().clamp_(0, 255).to(torch.uint8, memory_format=torch.channels_last)
    return pixels[0].permute(1, 2, 0)
