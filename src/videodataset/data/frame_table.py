"""Where the samples of a data set lie: what a sampler has to know that plans by GOP."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
from torch.utils.data import ConcatDataset, Subset

Int64Array = npt.NDArray[np.int64]


@dataclass(frozen=True)
class FrameTable:
    """One row for each sample, in the order of the data set.

    Attributes:
        paths: the videos.
        video: (n,), which of `paths` a sample is of; of the first one, where it is of several.
        first: (n,), number of its first frame.
        length: (n,), from its first frame to behind its last one.

    Raises:
        ValueError: the arrays are not of one length, or name videos or frames that cannot be.
    """

    paths: Sequence[str]
    video: npt.ArrayLike
    first: npt.ArrayLike
    length: npt.ArrayLike

    def __post_init__(self) -> None:
        for name in ("video", "first", "length"):
            object.__setattr__(self, name, np.asarray(getattr(self, name), np.int64).reshape(-1))
        video, first, length = self.columns
        if not len(video) == len(first) == len(length):
            raise ValueError(f"columns of {len(video)}, {len(first)} and {len(length)} rows; they must be equally long")
        if len(video) and not (video.min() >= 0 and video.max() < len(self.paths)):
            raise ValueError(f"video numbers from {video.min()} to {video.max()}, with {len(self.paths)} paths")
        if len(video) and (first.min() < 0 or length.min() < 1):
            raise ValueError("first must be at least 0 and length at least 1 in every row")

    @property
    def columns(self) -> tuple[Int64Array, Int64Array, Int64Array]:
        """(video, first, length), int64."""
        return self.video, self.first, self.length  # type: ignore[return-value]

    def __len__(self) -> int:
        return len(self.columns[0])


def frame_table_of(dataset: Any) -> FrameTable:
    """Return the table of a data set that has `frame_table()`, or of a `Subset` or `ConcatDataset` of such.

    Raises:
        TypeError: there is none.
        ValueError: it has not one row for each sample.
    """
    if isinstance(dataset, Subset):
        inner = frame_table_of(dataset.dataset)
        rows = np.asarray(dataset.indices, np.int64)
        return FrameTable(inner.paths, *(column[rows] for column in inner.columns))
    if isinstance(dataset, ConcatDataset):
        tables = [frame_table_of(each) for each in dataset.datasets]
        paths = list(dict.fromkeys(path for table in tables for path in table.paths))
        numbers = {path: k for k, path in enumerate(paths)}
        video = [np.array([numbers[path] for path in t.paths], np.int64)[t.columns[0]] for t in tables]
        return FrameTable(
            paths,
            np.concatenate(video),
            np.concatenate([t.columns[1] for t in tables]),
            np.concatenate([t.columns[2] for t in tables]),
        )
    if not hasattr(dataset, "frame_table"):
        raise TypeError(
            f"{type(dataset).__name__} has no frame_table(): let it return a videodataset.FrameTable(paths, video, "
            f"first, length) with a row for each sample"
        )
    table: FrameTable = dataset.frame_table()
    if len(table) != len(dataset):
        raise ValueError(f"frame_table() has {len(table)} rows for {len(dataset)} samples")
    return table
