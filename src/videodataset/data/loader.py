"""torch's DataLoader, giving decoded frames.

indices ─▶ workers: samples ─▶ collate ─▶ decode, one plan per batch ─▶ batch                   to the CPU
indices ─▶ workers, or none: samples ─▶ collate ─▶ this process decodes ahead ─▶ batch          to a GPU, or no workers
"""

from __future__ import annotations

import atexit
from collections import deque
from collections.abc import Callable, Generator, Iterator
from typing import Any
from weakref import WeakSet

import numpy as np
import torch
import torch.utils.data
from torch.utils.data import IterableDataset, RandomSampler, default_convert, get_worker_info

from videodataset.data.collate import Transforms, collate, with_transform
from videodataset.data.dataset import BaseVideoDataset
from videodataset.data.resolve import BatchOnItsWay
from videodataset.fetch import require_device, target_device


class DataLoader(torch.utils.data.DataLoader[Any]):
    """`torch.utils.data.DataLoader`, whose batches hold decoded frames in the place of references.

    Args:
        dataset: gives samples with `FrameRef`s in any nesting.
        *args: as torch's.
        **kwargs: as torch's; without `collate_fn`, `videodataset.collate`.
        device: where the frames go: "cpu", "cuda", "cuda:1", "auto", or None for `torch.get_default_device()`. To the
            CPU, workers decode; to a GPU, workers return references and this process decodes.
        transform: what is made of the frames, for all or by key of the samples.
        prefetch_batches: how many batches are decoded ahead by this process. None takes two, and to a GPU more, until
            256 frames are on their way: its decoders work on that many at a time. Workers that decode for the CPU are
            ahead by torch's `prefetch_factor`.
        seed: makes order and `BaseVideoDataset.rng` depend on (seed, epoch) alone, so that batches are the same with
            any number of workers. None takes that of `generator`, or draws one from torch's.

    Raises:
        ValueError: an argument out of its range.
    """

    def __init__(
        self,
        dataset: Any,
        *args: Any,
        device: str | torch.device | None = None,
        transform: Transforms | None = None,
        prefetch_batches: int | None = None,
        seed: int | None = None,
        **kwargs: Any,
    ) -> None:
        if prefetch_batches is not None and prefetch_batches < 0:
            raise ValueError(f"prefetch_batches must be at least 0, got {prefetch_batches}")
        self.device = target_device(device)
        self.transform, self.prefetch_batches = transform, prefetch_batches
        generator: torch.Generator = kwargs.setdefault("generator", None) or torch.Generator()
        if seed is None:
            drawn = kwargs["generator"] is None
            seed = int(torch.empty((), dtype=torch.int64).random_()) if drawn else generator.initial_seed()
        self.seed, self.epoch = seed, 0
        # Shared, so that workers that live on see the next epoch.
        self._shared_epoch = torch.zeros((), dtype=torch.int64).share_memory_()  # type: ignore[no-untyped-call]
        for each in _video_datasets(dataset):
            each.seed_with(self.seed, self._shared_epoch)
        kwargs["generator"] = self._base = generator
        arguments = dict(zip(_POSITIONAL, args, strict=False)) | kwargs
        # A generator of its own for the order: from the loader's, torch draws more or less often, as workers live on.
        self._order = torch.Generator()
        unordered = arguments.get("sampler") is None and arguments.get("batch_sampler") is None
        if arguments.get("shuffle") and unordered and not isinstance(dataset, IterableDataset):
            del arguments["shuffle"]
            arguments["sampler"] = RandomSampler(dataset, generator=self._order)
        batched = arguments.get("batch_size", 1) is not None or arguments.get("batch_sampler") is not None
        inner = arguments.get("collate_fn") or (collate if batched else default_convert)
        arguments["collate_fn"] = _Collate(inner, transform, decodes=self.device.type == "cpu")
        super().__init__(dataset, **arguments)

    def set_epoch(self, epoch: int) -> None:
        """Choose the epoch that the next iteration is; without this it counts up by itself."""
        self.epoch = epoch
        if hasattr(self.sampler, "set_epoch"):
            self.sampler.set_epoch(epoch)

    def __iter__(self) -> Any:
        """Return an iterator over the batches of the next epoch."""
        self._shared_epoch.fill_(self.epoch)
        for generator in (self._order, self._base):
            generator.manual_seed(_mixed(self.seed, self.epoch))
        self.epoch += 1
        batches = super().__iter__()
        if self.num_workers and self.device.type == "cpu":
            return batches  # the workers have decoded them
        require_device(self.device)
        decoded = _ahead(batches, self.transform, self.device, self.prefetch_batches)
        _unfinished.add(decoded)
        return decoded


_BATCHES_AHEAD = 2
#: The sessions of an engine hold a few pictures each before they wait for one, and need runs queued beside these.
_GPU_FRAMES_AHEAD = 256
_POSITIONAL = (
    "batch_size", "shuffle", "sampler", "batch_sampler", "num_workers", "collate_fn", "pin_memory", "drop_last",
    "timeout", "worker_init_fn", "multiprocessing_context", "generator",
)  # fmt: skip


class _Collate:
    """The user's collate function; in a worker whose target is the CPU, decoding too."""

    def __init__(self, inner: Callable[[Any], Any], transform: Transforms | None, decodes: bool) -> None:
        self._inner, self._transform, self._decodes = inner, transform, decodes

    def __call__(self, samples: Any) -> Any:
        batch = self._inner(samples)
        if self._decodes and get_worker_info() is not None:
            return BatchOnItsWay(batch, self._transform, torch.device("cpu")).wait()
        return batch if self._transform is None else with_transform(batch, self._transform)


#: Iterators left half-way are closed while the interpreter still works: at its very end torch cannot.
_unfinished: WeakSet[Generator[Any, None, None]] = WeakSet()


def _close_unfinished() -> None:
    for each in list(_unfinished):
        each.close()


atexit.register(_close_unfinished)


def _ahead(
    batches: Iterator[Any], transform: Transforms | None, device: torch.device, count: int | None
) -> Generator[Any, None, None]:
    """Give decoded batches, `count` of them begun ahead; see `DataLoader` for None."""

    def enough() -> bool:
        if count is not None:
            return len(on_their_way) > count
        frames = sum(batch.frames for batch in on_their_way)
        return len(on_their_way) > _BATCHES_AHEAD and (device.type == "cpu" or frames >= _GPU_FRAMES_AHEAD)

    on_their_way: deque[BatchOnItsWay] = deque()
    failure: Exception | None = None
    try:
        while failure is None:
            try:
                on_their_way.append(BatchOnItsWay(next(batches), transform, device))
            except StopIteration:
                break
            except Exception as error:  # of the user's code or of the plan: told when the batches before are out
                failure = error
            if enough():
                yield on_their_way.popleft().wait()
        while on_their_way:
            yield on_their_way.popleft().wait()
        if failure is not None:
            raise failure
    finally:
        for each in on_their_way:
            each.cancel()


def _video_datasets(dataset: Any) -> Iterator[BaseVideoDataset]:
    """The video data sets behind subsets and concatenations."""
    if isinstance(dataset, BaseVideoDataset):
        yield dataset
    for inner in [getattr(dataset, "dataset", None), *(getattr(dataset, "datasets", None) or [])]:
        if inner is not None:
            yield from _video_datasets(inner)


def _mixed(seed: int, epoch: int) -> int:
    """One number from two, well mixed, within what `manual_seed` takes."""
    return int(np.random.SeedSequence((seed % 2**64, epoch)).generate_state(1, np.uint64)[0] >> 1)
