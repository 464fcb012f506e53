"""Surgery on the boxes of an MP4 file."""

from __future__ import annotations

import struct
from collections.abc import Iterator
from pathlib import Path

MATRICES = {0: (1, 0, 0, 1), 90: (0, 1, -1, 0), 180: (-1, 0, 0, -1), 270: (0, -1, 1, 0)}


def boxes(data: bytes, start: int = 0, stop: int | None = None) -> Iterator[tuple[bytes, int, int, int]]:
    """Yield (type, box start, body start, end) of the boxes at one level."""
    stop = len(data) if stop is None else stop
    while start + 8 <= stop:
        size, kind = struct.unpack_from(">I4s", data, start)
        head = 8
        if size == 1:
            size, head = struct.unpack_from(">Q", data, start + 8)[0], 16
        elif size == 0:
            size = stop - start
        yield kind, start, start + head, start + size
        start += size


def find(data: bytes, *path: str) -> tuple[int, int]:
    """Return (body start, end) of the first box at `path`, e.g. "moov", "trak", "tkhd"."""
    start, stop = 0, len(data)
    for name in path:
        start, stop = next((body, end) for kind, _, body, end in boxes(data, start, stop) if kind == name.encode())
    return start, stop


def set_display_matrix(path: Path, rotation: int, mirror: bool) -> None:
    """Make players mirror the first track left-right, then turn it `rotation` degrees clockwise."""
    data = bytearray(path.read_bytes())
    _, end = find(data, "moov", "trak", "tkhd")
    a, b, c, d = MATRICES[rotation]
    if mirror:
        a, b = -a, -b
    width, height = struct.unpack_from(">II", data, end - 8)
    x = (width if a < 0 else 0) + (height if c < 0 else 0)
    y = (width if b < 0 else 0) + (height if d < 0 else 0)
    data[end - 44 : end - 8] = struct.pack(">9i", a << 16, b << 16, 0, c << 16, d << 16, 0, x, y, 1 << 30)
    path.write_bytes(data)


def set_codec_tag(path: Path, old: bytes, new: bytes) -> None:
    """Change the four letters that name the codec in the first track's sample description."""
    data = bytearray(path.read_bytes())
    body, end = find(data, "moov", "trak", "mdia", "minf", "stbl", "stsd")
    at = data.index(old, body, end)
    data[at : at + 4] = new
    path.write_bytes(data)
