"""The mixin that makes a torch data set one of video: frames are asked for, not decoded, in `__getitem__`."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import torch

from videodataset.data.frame_ref import FrameRef
from videodataset.storage import Source


class BaseVideoDataset:
    """Gives `frames` and `rng` to a data set, beside `torch.utils.data.Dataset` or alone.

    It needs no `__init__` of its own to have run:

        class Clips(torch.utils.data.Dataset, videodataset.BaseVideoDataset):
            def __getitem__(self, i):
                row = self.rows[i]
                return {"image": self.frames(row.path, row.frame), "action": row.action}
    """

    _seed: int = 0
    _epoch: torch.Tensor | None = None

    def frames(
        self,
        source: Source,
        indices: int | Sequence[int] | torch.Tensor | None = None,
        *,
        seconds: float | Sequence[float] | torch.Tensor | None = None,
        **options: Any,
    ) -> FrameRef:
        """Return a reference to frames; arguments as those of `FrameRef`."""
        return FrameRef(source, indices, seconds=seconds, **options)

    def rng(self, i: int, draw: int = 0) -> np.random.Generator:
        """Return random numbers that depend on the seed, the epoch, the sample and the draw, and on nothing else.

        So a batch is the same whatever the number of workers, how they were started, and after resuming. The generator
        is Philox, which counts instead of stepping (Salmon et al., Parallel Random Numbers: As Easy as 1, 2, 3, 2011).

        Args:
            i: number of the sample.
            draw: which of several independent streams for the same sample.
        """
        epoch = 0 if self._epoch is None else int(self._epoch)
        key = np.array([self._seed, epoch], np.uint64)
        return np.random.Generator(np.random.Philox(key=key, counter=[0, 0, int(i) % 2**64, int(draw) % 2**64]))

    def seed_with(self, seed: int, epoch: torch.Tensor) -> None:
        """Take the seed, and the shared memory where the epoch will stand: int64, no dimensions. Loaders call it."""
        self._seed, self._epoch = seed % 2**64, epoch
