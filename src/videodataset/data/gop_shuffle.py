"""A shuffle that lets every picture be decoded about once per epoch.

    samples ──▶ GOPs, `group` neighbours of a video together ──▶ shuffled ──▶ each rank its stretch ──▶ windows ──▶ each
    window's samples shuffled

A frame is decoded from the sync picture before it, so the frames of one GOP cost little more together than one of them
alone. A window holds whole GOPs but for its first and last, and the loader plans its batches in one piece. The larger
the window, the nearer the order is to a full shuffle, and the more memory its decoded frames take.
"""

from __future__ import annotations

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import torch.distributed as dist
from torch.utils.data import Sampler

from videodataset.data.frame_table import FrameTable, frame_table_of
from videodataset.errors import FrameIndexError
from videodataset.videos import videos

_OPENED_AT_A_TIME = 16


@dataclass(frozen=True)
class Mixing:
    """How mixed the batches of an epoch are, and how mixed those of a full shuffle of the same samples would be.

    Attributes:
        same_video: share of the other samples of a batch that are of a sample's own video; mean over all samples.
        same_video_in_full_shuffle: the same, of a full shuffle.
        neighbour_frames: median distance in frames from a sample to the nearest other one of its batch and video;
            infinite where most samples have none.
        neighbour_frames_in_full_shuffle: the same, of a full shuffle.
    """

    same_video: float
    same_video_in_full_shuffle: float
    neighbour_frames: float
    neighbour_frames_in_full_shuffle: float


class GopShuffleSampler(Sampler[int]):
    """Indices of a data set in an order in which the frames of a GOP are used near one another.

    Args:
        dataset: has `frame_table()`; or a `Subset` or `ConcatDataset` of such.
        window: samples that are shuffled among one another. Two windows' frames are in memory at a time.
        group: neighbouring GOPs that stay together: for clips, which otherwise share GOPs with another window.
        seed: the order depends on (seed, epoch) alone.
        num_replicas: processes that share the samples; None asks `torch.distributed`, 1 without it.
        rank: which of them this is.

    Every process gets equally many samples and no two the same; up to `num_replicas` - 1 are left out, other ones in
    every epoch. `vd.DataLoader` sets the epoch; another loader's user calls `set_epoch`.

    Raises:
        ValueError: an argument out of its range, or fewer samples than processes.
        TypeError: a data set without `frame_table()`.
        FrameIndexError: a sample that begins behind its video's end.
        VideoDatasetError: a video that cannot be indexed.
    """

    def __init__(
        self,
        dataset: Any,
        *,
        window: int = 4096,
        group: int = 1,
        seed: int = 0,
        num_replicas: int | None = None,
        rank: int | None = None,
    ) -> None:
        if window < 1 or group < 1:
            raise ValueError(f"window and group must be at least 1, got {window} and {group}")
        distributed = dist.is_available() and dist.is_initialized()
        self.num_replicas = num_replicas or (dist.get_world_size() if distributed else 1)
        self.rank = rank if rank is not None else (dist.get_rank() if distributed else 0)
        if not 0 <= self.rank < self.num_replicas:
            raise ValueError(f"rank must be from 0 to {self.num_replicas - 1}, got {self.rank}")
        self.window, self.group, self.seed, self.epoch = window, group, seed, 0
        self._table = frame_table_of(dataset)
        if len(self._table) < self.num_replicas:
            raise ValueError(f"{len(self._table)} samples for {self.num_replicas} processes")
        unit = _unit_of_samples(self._table, group)
        self._by_unit = np.lexsort((self._table.columns[1], unit))
        self._begins = np.flatnonzero(np.diff(unit[self._by_unit], prepend=-1))

    def __len__(self) -> int:
        return len(self._table) // self.num_replicas

    def __iter__(self) -> Iterator[int]:
        return iter(self.order().tolist())

    def set_epoch(self, epoch: int) -> None:
        """Choose the epoch whose order comes next."""
        self.epoch = epoch

    def order(self) -> npt.NDArray[np.int64]:
        """Return this process's indices of the epoch, int64 (len,)."""
        rng = np.random.default_rng([self.seed % 2**64, self.epoch])
        ends = np.append(self._begins[1:], len(self._by_unit))
        shuffled = rng.permutation(len(self._begins))
        samples = np.concatenate([self._by_unit[self._begins[k] : ends[k]] for k in shuffled])
        # The end that is left over is another one in every epoch, as the GOPs' order is.
        own = samples[self.rank * len(self) :][: len(self)]
        for start in range(0, len(own), self.window):
            part = own[start : start + self.window]
            own[start : start + self.window] = part[rng.permutation(len(part))]
        return own

    def mixing(self, batch_size: int) -> Mixing:
        """Return how mixed batches of so many samples are in the epoch that comes next."""
        full = np.random.default_rng([self.seed % 2**64, self.epoch, 1]).permutation(len(self._table))[: len(self)]
        own, other = (self._mixing(order, batch_size) for order in (self.order(), full))
        return Mixing(own[0], other[0], own[1], other[1])

    def _mixing(self, order: npt.NDArray[np.int64], batch_size: int) -> tuple[float, float]:
        video, first, _ = (column[order] for column in self._table.columns)
        same, pairs = 0, 0
        nearest = np.full(len(order), np.inf)
        for start in range(0, len(order), batch_size):
            part = slice(start, start + batch_size)
            alike = video[part, None] == video[None, part]
            np.fill_diagonal(alike, False)
            same, pairs = same + int(alike.sum()), pairs + alike.shape[0] * (alike.shape[0] - 1)
            distance = np.where(alike, np.abs(first[part, None] - first[None, part]), np.inf)
            nearest[part] = distance.min(1)
        return same / pairs if pairs else 0.0, float(np.median(nearest)) if len(nearest) else float("inf")


def _unit_of_samples(table: FrameTable, group: int) -> npt.NDArray[np.int64]:
    """The number of the stretch of GOPs in which each sample begins, over all videos."""
    video, first, _ = table.columns
    used = np.unique(video)
    unit = np.empty(len(video), np.int64)
    with ThreadPoolExecutor(_OPENED_AT_A_TIME) as pool:
        opened = pool.map(lambda k: videos.open(table.paths[k]), used.tolist())
        order = np.argsort(video, kind="stable")
        bounds = np.searchsorted(video[order], used, "left"), np.searchsorted(video[order], used, "right")
        total = 0
        for each, begin, end in zip(opened, *bounds, strict=True):
            rows = order[begin:end]
            index = each.index
            if first[rows].max() >= len(index):
                raise FrameIndexError(f"{each.name}: no frame {first[rows].max()}; the video has {len(index)} frames.")
            syncs = np.unique(index.start)
            gop = np.searchsorted(syncs, index.start[index.presentation[first[rows]]])
            unit[rows] = total + gop // group
            total += len(syncs) // group + 1
    return unit
