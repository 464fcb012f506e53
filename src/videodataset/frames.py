"""What is delivered: one frame, or a batch of frames, with their times."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, fields
from typing import Any

import torch


def _describe(record: Any) -> str:
    lines = [f"{type(record).__name__}:"]
    for field in fields(record):
        value = getattr(record, field.name)
        shown = ("data (shape)", tuple(value.shape)) if field.name == "data" else (field.name, value)
        lines.append(f"  {shown[0]}: {shown[1]}")
    return "\n".join(lines)


@dataclass(repr=False)
class Frame:
    """One frame.

    Attributes:
        data: uint8, (C, H, W) or (H, W, C).
        pts_seconds: when it is shown, in seconds on the stream's timeline.
        duration_seconds: how long it is shown, in seconds.
    """

    data: torch.Tensor
    pts_seconds: float
    duration_seconds: float

    def __post_init__(self) -> None:
        if self.data.ndim != 3:
            raise ValueError(f"data must be 3-D, got shape {tuple(self.data.shape)}")
        self.pts_seconds, self.duration_seconds = float(self.pts_seconds), float(self.duration_seconds)

    def __iter__(self) -> Iterator[torch.Tensor | float]:
        yield self.data
        yield self.pts_seconds
        yield self.duration_seconds

    def __repr__(self) -> str:
        return _describe(self)


@dataclass(repr=False)
class FrameBatch:
    """Frames in the asked order, repeats honoured.

    Attributes:
        data: uint8, (N, C, H, W) or (N, H, W, C).
        pts_seconds: float64, (N,), on the CPU: when each is shown.
        duration_seconds: float64, (N,), on the CPU: how long each is shown.
    """

    data: torch.Tensor
    pts_seconds: torch.Tensor
    duration_seconds: torch.Tensor

    def __post_init__(self) -> None:
        leading = self.data.shape[:-3]
        if self.data.ndim < 3 or leading != self.pts_seconds.shape or leading != self.duration_seconds.shape:
            raise ValueError(
                f"the leading dimensions of data {tuple(self.data.shape)}, pts_seconds {tuple(self.pts_seconds.shape)} "
                f"and duration_seconds {tuple(self.duration_seconds.shape)} must be the same"
            )

    def __len__(self) -> int:
        return len(self.data)

    def __getitem__(self, key: Any) -> FrameBatch:
        return FrameBatch(self.data[key], self.pts_seconds[key], self.duration_seconds[key])

    def __iter__(self) -> Iterator[FrameBatch]:
        for number in range(len(self)):
            yield self[number]

    def __repr__(self) -> str:
        return _describe(self)
