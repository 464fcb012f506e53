"""Pictures that carry their number and move enough for prediction between them to be real.

Layout, in display orientation: the top third is a grid of two rows by eight columns of blocks. Columns 1 to 6 of the
upper row hold the number's bits, highest first, white for 1; the lower row holds their complement. The outer columns
are markers, black above white on the left, white above black on the right: a turned, mirrored or torn picture does not
read as a number.
"""

from __future__ import annotations

from functools import lru_cache
from typing import Any

import numpy as np
from numpy.typing import NDArray

BITS = 6
COLUMNS = BITS + 2
MAX_NUMBER = 2**BITS - 1
WHITE, BLACK = 230, 25


def _blocks(width: int, height: int) -> list[tuple[int, int, slice, slice]]:
    """Return (row, column, y slice, x slice) of every block."""
    xs = [width * k // COLUMNS for k in range(COLUMNS + 1)]
    ys = [height * k // 6 for k in range(3)]
    return [
        (row, col, slice(ys[row], ys[row + 1]), slice(xs[col], xs[col + 1]))
        for row in range(2)
        for col in range(COLUMNS)
    ]


def _upper_bits(number: int) -> list[int]:
    return [0] + [(number >> k) & 1 for k in reversed(range(BITS))] + [1]


@lru_cache(maxsize=8)
def _texture(width: int, height: int) -> NDArray[np.float64]:
    y, x = np.mgrid[0:height, 0:width].astype(float)
    waves = [
        np.sin(2 * np.pi * (a * x / width + b * y / height) + phase)
        for a, b, phase in ((2, 1, 0.3), (5, -3, 1.1), (1, 4, 2.0), (9, 7, 0.7))
    ]
    noise = np.random.default_rng(7).normal(size=(height, width))
    luma = 120 + 22 * waves[0] + 16 * waves[1] + 6 * noise
    return np.stack([luma + 30 * waves[2], luma - 20 * waves[3], luma + 25 * waves[0] * waves[2]], axis=-1)


def draw(number: int, width: int, height: int, phase: int | None = None) -> NDArray[np.uint8]:
    """Return picture `number` as (height, width, 3) uint8; `phase` sets the motion (the number itself by default)."""
    phase = number if phase is None else phase
    picture = np.roll(_texture(width, height), (phase, 2 * phase), axis=(0, 1)).copy()
    size = max(height // 6, 6)
    x, y = (5 * phase) % (width - size), height // 2 + (3 * phase) % (height // 2 - size)
    picture[y : y + size, x : x + size] = ((37 * number) % 200 + 30, (91 * number) % 200 + 30, (53 * number) % 200 + 30)
    upper = _upper_bits(number)
    for row, col, ys, xs in _blocks(width, height):
        picture[ys, xs] = WHITE if upper[col] != row else BLACK
    return np.clip(np.rint(picture), 0, 255).astype(np.uint8)


def read_number(frame_chw: Any) -> int | None:
    """Return the number drawn in a (3, H, W) picture, tensor or array; None when it cannot be read."""
    if hasattr(frame_chw, "cpu"):
        frame_chw = frame_chw.cpu().numpy()
    gray = np.asarray(frame_chw, dtype=np.float64).mean(axis=0)
    height, width = gray.shape
    values = np.zeros((2, COLUMNS), dtype=int)
    for row, col, ys, xs in _blocks(width, height):
        margin_y, margin_x = (ys.stop - ys.start) // 4, (xs.stop - xs.start) // 4
        mean = gray[ys.start + margin_y : ys.stop - margin_y, xs.start + margin_x : xs.stop - margin_x].mean()
        if 95 < mean < 160:
            return None
        values[row, col] = mean >= 160
    if (values[0] == values[1]).any() or values[0, 0] != 0 or values[0, -1] != 1:
        return None
    return int("".join(map(str, values[0, 1:-1])), 2)
