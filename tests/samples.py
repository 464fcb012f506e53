"""The simplest data set: one frame a sample."""

from __future__ import annotations

from typing import Any

from torch.utils.data import Dataset

import videodataset as vd


class EveryFrame(Dataset[Any], vd.BaseVideoDataset):
    """The first frames of a video, each a sample."""

    def __init__(self, path: str, length: int = 24) -> None:
        self.path, self.length = path, length

    def __len__(self) -> int:
        return self.length

    def __getitem__(self, i: int) -> Any:
        return {"image": self.frames(self.path, i), "number": i}
