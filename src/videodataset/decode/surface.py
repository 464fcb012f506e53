"""Decoded pictures in device memory as the hardware gives them, and as planes of samples."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import torch

MONOCHROME, YUV420, YUV422, YUV444 = 0, 1, 2, 3  # as NVCUVID numbers chroma formats
_PITCH_ALIGNMENT_BYTES = 64


@dataclass(frozen=True)
class SurfaceFormat:
    """How a picture lies in a slot of the native core.

    Rows of `pitch_bytes`: `height` rows of luma; then for 4:2:0 (height + 1) // 2 rows of Cb and Cr in turns, for 4:4:4
    `height` rows of Cb and as many of Cr. Samples of more than 8 bits take two bytes, with the value in the high bits.

    Attributes:
        width: shown, before rotation, in pixels.
        height: likewise.
        chroma: MONOCHROME, YUV420 or YUV444.
        depth: bits per sample.
    """

    width: int
    height: int
    chroma: int
    depth: int

    @property
    def sample_bytes(self) -> int:
        """1, or 2 above 8 bits."""
        return 2 if self.depth > 8 else 1

    @cached_property
    def pitch_bytes(self) -> int:
        """Bytes from one row to the next."""
        row = (self.width + 1) // 2 * 2 * self.sample_bytes
        return -(-row // _PITCH_ALIGNMENT_BYTES) * _PITCH_ALIGNMENT_BYTES

    @property
    def rows(self) -> int:
        """Rows of all planes."""
        chroma_rows = {MONOCHROME: 0, YUV420: (self.height + 1) // 2, YUV444: 2 * self.height}
        return self.height + chroma_rows[self.chroma]

    @cached_property
    def size_bytes(self) -> int:
        """Bytes of a slot."""
        return self.pitch_bytes * self.rows

    @cached_property
    def fields(self) -> tuple[int, int, int, int, int]:
        """What the core is told of it: pitch in bytes, width, height, chroma, depth."""
        return self.pitch_bytes, self.width, self.height, self.chroma, self.depth


def planes_of(slots: torch.Tensor, surface: SurfaceFormat) -> list[torch.Tensor]:
    """Return the planes of pictures as they were coded, as views.

    Args:
        slots: uint8 (N, rows * pitch_bytes), pictures of one format.
        surface: the format.

    Returns:
        Y, and unless monochrome Cb and Cr, each (N, h, w); uint8, or above 8 bits int16, whose bits are those of an
        unsigned number with the value in the high bits.
    """
    rows = slots.view(len(slots), surface.rows, surface.pitch_bytes)
    if surface.sample_bytes == 2:
        rows = rows.view(torch.int16)
    width, height = surface.width, surface.height
    luma = rows[:, :height, :width]
    if surface.chroma == MONOCHROME:
        return [luma]
    if surface.chroma == YUV444:
        return [luma, rows[:, height : 2 * height, :width], rows[:, 2 * height :, :width]]
    chroma = rows[:, height:, : (width + 1) // 2 * 2]
    return [luma, chroma[..., 0::2], chroma[..., 1::2]]
