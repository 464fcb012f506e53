"""torch's DataLoader, giving decoded frames.

indices ─▶ workers: samples ─▶ collate ─▶ decode, one plan per batch ─▶ batch                   to the CPU
indices ─▶ workers, or none: samples ─▶ collate ─▶ this process decodes ahead ─▶ batch          to a GPU, or no workers
"""

from __future__ import annotations

import time
import warnings
from collections.abc import Callable, Generator, Iterator, Sequence
from contextlib import closing, contextmanager
from itertools import islice
from typing import Any, Literal

import numpy as np
import torch
import torch.utils.data
from torch.utils.data import IterableDataset, RandomSampler, default_convert, get_worker_info

from videodataset.byte_sizes import parse_bytes
from videodataset.data.ahead import Ahead, Delivery, as_they_come, close_at_exit
from videodataset.data.batch_order import BatchOrder, Held
from videodataset.data.budget import budget_of
from videodataset.data.collate import Transforms, collate, with_transform
from videodataset.data.dataset import BaseVideoDataset
from videodataset.data.dead_worker import naming_dead_workers
from videodataset.data.gop_shuffle import GopShuffleSampler
from videodataset.data.resolve import PlannedBatches
from videodataset.data.resume import check_state, state_of
from videodataset.data.statistics import LoaderStatistics, Recorder, told
from videodataset.fetch import FrameCache, require_device, target_device


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
            384 frames are on their way: its decoders work on that many at a time. Workers that decode for the CPU are
            ahead by torch's `prefetch_factor`.
        memory_budget: bytes, or "2GiB", for the batches that this process decodes, from when their decoding begins to
            when they are handed out: frames and, to a GPU, the decoded pictures that they are made from. Fewer batches
            are decoded ahead where it is used up. None takes a tenth of the GPU's memory that is free when an epoch
            begins, or one batch if that is more, and does not limit batches on the CPU.
        cache: bytes, or "8GiB", in which decoded frames are kept on their device from epoch to epoch; or a
            `FrameCache`, for another place. To the CPU this process decodes then, and not the workers, which would
            each have one.
        seed: makes order and `BaseVideoDataset.rng` depend on (seed, epoch) alone, so that batches are the same with
            any number of workers. None takes that of `generator`, or draws one from torch's.
        on_error: "raise"; or "skip", which leaves out samples with a frame that cannot be had (a damaged, unreadable
            or unsupported video, no such frame), counts them by file and reason in `statistics()`, and warns of them
            at the end of an epoch. What is left of the batch is smaller; a batch of which nothing is left does not
            come. Every tensor of a batch must have the samples as its first dimension then.
        report: called with `statistics()` every `report_every` batches, and at the end of an epoch.
        report_every: see `report`.

    Raises:
        ValueError: an argument out of its range; in iterating, a batch larger than `memory_budget`.
    """

    def __init__(
        self,
        dataset: Any,
        *args: Any,
        device: str | torch.device | None = None,
        transform: Transforms | None = None,
        prefetch_batches: int | None = None,
        memory_budget: int | str | None = None,
        cache: int | str | FrameCache | None = None,
        seed: int | None = None,
        on_error: Literal["raise", "skip"] = "raise",
        report: Callable[[LoaderStatistics], None] | None = None,
        report_every: int = 100,
        **kwargs: Any,
    ) -> None:
        if prefetch_batches is not None and prefetch_batches < 0:
            raise ValueError(f"prefetch_batches must be at least 0, got {prefetch_batches}")
        if on_error not in ("raise", "skip"):
            raise ValueError(f'on_error must be "raise" or "skip", got {on_error!r}')
        if report_every < 1:
            raise ValueError(f"report_every must be at least 1, got {report_every}")
        self.device = target_device(device)
        if on_error == "skip" and self.device.type == "cuda" and kwargs.get("pin_memory"):
            raise ValueError('pin_memory=True has no use beside device="cuda", and excludes on_error="skip"')
        self.transform, self.prefetch_batches, self.on_error = transform, prefetch_batches, on_error
        self.memory_budget = None if memory_budget is None else parse_bytes(memory_budget)
        self.cache = cache if isinstance(cache, FrameCache) or cache is None else FrameCache(cache, self.device)
        self._report, self._report_every = report, report_every
        self._recorder = Recorder(self.device)
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
        self._together = _batches_together(arguments.get("sampler"), arguments.get("batch_size", 1))
        # Batches planned together, and a cache, are this process's.
        self._workers_decode = self.device.type == "cpu" and self._together == 1 and self.cache is None
        arguments["collate_fn"] = self._collate = _Collate(inner, transform, on_error == "skip", self._workers_decode)
        self._held = Held(0)
        self._first = 0  # batch that the next iteration begins with
        self._running: int | None = None  # epoch being iterated over
        self._handed = 0  # batches of it that the user has got
        self._dataset_state: Any = None
        self._sampler_state: torch.Tensor | None = None
        super().__init__(dataset, **arguments)

    def state_dict(self) -> dict[str, Any]:
        """Return where the loop is: what `load_state_dict` of a loader made alike goes on from.

        It counts the batches that the loop has got, whatever is on its way behind them, and holds numbers, not frames.
        Batches after resuming are those that would have come: for map-style data with any number of workers; for
        iterable data with the same number, from its own `state_dict` where it has one and no workers, else by giving
        out its samples once more, undecoded to a GPU. A sampler of one's own must give the same order for the same
        epoch (`set_epoch`) or draw from a `generator` of its own.
        """
        epoch = self.epoch if self._running is None else self._running
        return state_of(self.seed, epoch, self._handed, self._order_facts(), self._dataset_state, self._sampler_state)

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Go on from a state: the next iteration begins in the middle of its epoch, behind the batches it counted.

        Raises:
            ValueError: no such state, or that of a loader whose batches are others.
        """
        check_state(state, self._order_facts())
        self.seed, self._first = state["seed"], state["batches"]
        self._handed, self._running = self._first, None
        self.set_epoch(state["epoch"])
        for each in _video_datasets(self.dataset):
            each.seed_with(self.seed, self._shared_epoch)
        self._dataset_state, self._sampler_state = state["dataset"], state["generator"]
        if self._first and isinstance(self.dataset, IterableDataset) and self._dataset_state is None:
            warnings.warn(
                f"iterable data without a state of its own: its first {self._first} batches are gone through again",
                stacklevel=2,
            )

    def _order_facts(self) -> dict[str, Any]:
        iterable = self._is_iterable
        facts = {"batch_size": self.batch_size, "drop_last": self.drop_last}
        dataset: Any = self.dataset
        return facts | ({"num_workers": self.num_workers} if iterable else {"samples": len(dataset)})

    @property
    def _index_sampler(self) -> Any:
        # torch's iterator takes the order from here; one whose workers live on keeps what it took the first time.
        return BatchOrder(super()._index_sampler, lambda: (0 if self._is_iterable else self._first, self._held))

    @property
    def _is_iterable(self) -> bool:
        return isinstance(self.dataset, IterableDataset)

    def set_epoch(self, epoch: int) -> None:
        """Choose the epoch that the next iteration is; without this it counts up by itself."""
        self.epoch = epoch
        if hasattr(self.sampler, "set_epoch"):
            self.sampler.set_epoch(epoch)

    def __iter__(self) -> Any:
        """Return an iterator over the batches of the next epoch, or what `load_state_dict` left of it."""
        self._recorder.begin(self.epoch)
        if self.cache is not None:
            self.cache.begin_epoch()
        if isinstance(self.sampler, GopShuffleSampler):
            self.sampler.set_epoch(self.epoch)
        self._shared_epoch.fill_(self.epoch)
        for generator in (self._order, self._base):
            generator.manual_seed(_mixed(self.seed, self.epoch))
        self._restore_sampler()
        dataset: Any = self.dataset
        dataset_state = self._dataset_state if self._first else None
        if dataset_state is not None:
            dataset.load_state_dict(dataset_state)
        in_turn = getattr(self, "in_order", True) and not self._is_iterable
        held = self._held = Held(self.num_workers if in_turn else 0)
        with self._collate.telling():
            batches: Iterator[Any] = naming_dead_workers(super().__iter__(), held)
        if self._is_iterable and dataset_state is None:
            batches = islice(batches, self._first, None)
        has_state = self._is_iterable and not self.num_workers and hasattr(dataset, "state_dict")
        snapshot = dataset.state_dict if has_state else None
        if self.num_workers and self._workers_decode:
            decoded = as_they_come(batches)  # the workers have decoded them
        else:
            require_device(self.device)
            decoded = iter(
                Ahead(
                    batches,
                    self._looked_up,
                    self.device,
                    count=self.prefetch_batches,
                    together=(self._together, self._together - self._first % self._together),
                    budget=budget_of(self.memory_budget, self.device),
                    snapshot=snapshot,
                )
            )
        counted = self._counted(decoded, self._first)
        self.epoch, self._running, self._handed, self._first = self.epoch + 1, self.epoch, self._first, 0
        close_at_exit(counted)
        return counted

    def statistics(self) -> LoaderStatistics:
        """Return what the loader has done in the epoch that runs, or in the last one; `str` of it is one line."""
        return self._recorder.statistics()

    def _looked_up(self, batches: Sequence[Any]) -> PlannedBatches:
        return PlannedBatches(batches, self.transform, self.device, skips=self.on_error == "skip", cache=self.cache)

    def _counted(self, batches: Generator[Delivery, None, None], handed: int) -> Generator[Any, None, None]:
        recorder, given = self._recorder, 0
        with closing(batches):
            asked = time.perf_counter()
            for decoded, dataset_state, begun in batches:
                handed += 1
                self._handed, self._dataset_state = handed, dataset_state
                recorder.decoded(decoded, begun)
                if decoded.batch is None:
                    continue
                recorder.handed(asked)
                given += 1
                if self._report is not None and given % self._report_every == 0:
                    self._report(self.statistics())
                yield decoded.batch
                asked = time.perf_counter()
        self._running, self._handed, self._dataset_state = None, 0, None
        if self._report is not None and given % self._report_every:
            self._report(self.statistics())
        if recorder.samples_skipped:
            warnings.warn(told(self.statistics()), RuntimeWarning, stacklevel=2)

    def _restore_sampler(self) -> None:
        """Begin the epoch with the sampler's own generator as it was then, or note how it is."""
        generator = getattr(self.sampler, "generator", None)
        if generator is None or generator is self._order:
            self._sampler_state = None
        elif self._first and self._sampler_state is not None:
            generator.set_state(self._sampler_state)
        else:
            self._sampler_state = generator.get_state()


_POSITIONAL = (
    "batch_size", "shuffle", "sampler", "batch_sampler", "num_workers", "collate_fn", "pin_memory", "drop_last",
    "timeout", "worker_init_fn", "multiprocessing_context", "generator",
)  # fmt: skip


class _Collate:
    """The user's collate function; in a worker whose target is the CPU, decoding too."""

    def __init__(self, inner: Callable[[Any], Any], transform: Transforms | None, skips: bool, decodes: bool) -> None:
        self._inner, self._transform, self._skips, self._decodes = inner, transform, skips, decodes
        self._tells = False

    @contextmanager
    def telling(self) -> Iterator[None]:
        """Let workers that begin meanwhile give `DecodedBatch`es.

        Others give plain batches: a loader that another library makes of this one's parts knows no others.
        """
        self._tells = True
        try:
            yield
        finally:
            self._tells = False

    def __call__(self, samples: Any) -> Any:
        batch = self._inner(samples)
        if self._decodes and get_worker_info() is not None:
            (decoded,) = PlannedBatches([batch], self._transform, torch.device("cpu"), skips=self._skips).wait()
            return decoded if self._tells else decoded.batch
        return batch if self._transform is None else with_transform(batch, self._transform)


def _video_datasets(dataset: Any) -> Iterator[BaseVideoDataset]:
    """The video data sets behind subsets and concatenations."""
    if isinstance(dataset, BaseVideoDataset):
        yield dataset
    for inner in [getattr(dataset, "dataset", None), *(getattr(dataset, "datasets", None) or [])]:
        if inner is not None:
            yield from _video_datasets(inner)


def _batches_together(sampler: Any, batch_size: int | None) -> int:
    """How many batches are planned together: a window of the sampler's.

    Raises:
        ValueError: the window holds no whole number of batches.
    """
    if not isinstance(sampler, GopShuffleSampler) or not batch_size:
        return 1
    if sampler.window % batch_size:
        fits = max(sampler.window // batch_size, 1) * batch_size
        raise ValueError(
            f"the sampler's window of {sampler.window} samples must be a multiple of batch_size={batch_size}, such as "
            f"{fits}"
        )
    return sampler.window // batch_size


def _mixed(seed: int, epoch: int) -> int:
    """One number from two, well mixed, within what `manual_seed` takes."""
    return int(np.random.SeedSequence((seed % 2**64, epoch)).generate_state(1, np.uint64)[0] >> 1)
