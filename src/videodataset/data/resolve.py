"""Whole batches: every reference in them, under whatever key, in one plan."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import islice
from typing import Any, NamedTuple

import numpy as np
import torch

from videodataset.data.collate import Transforms, transform_of
from videodataset.data.columns import RefColumns
from videodataset.data.decode import Group, Resolution, failing_references
from videodataset.data.frame_ref import FrameRef
from videodataset.data.nested import map_leaves
from videodataset.data.pending import PendingFrames
from videodataset.data.skipping import SKIPPABLE, Keep, Skipped, rows_of, skipped, taken, without_rows
from videodataset.fetch import FrameCache, Work


class DecodedBatch(NamedTuple):
    """A batch and what it took. A tuple, so that torch pins the tensors in it.

    Attributes:
        batch: with tensors in the place of references; None where every sample was left out.
        frames: how many were asked for.
        work: what decoding them cost.
        skipped: the samples that were left out.
    """

    batch: Any
    frames: int
    work: Work
    skipped: list[Skipped]


class PlannedBatches:
    """Collated batches whose references are looked up in one plan; and decoded from `start` on.

    Args:
        batches: each any nesting with `PendingFrames`, or with single `FrameRef`s, which become single frames. A
            picture that several of them ask for is decoded once.
        transform: what is made of the frames, for all or by key.
        device: where the frames go.
        threads: see `videodataset.decode`.
        skips: whether samples with a reference that fails are left out, instead of raising its error. Pending frames
            have a sample's reference at the same place; single references are those of one sample.
        cache: frames that need not be decoded.
    """

    def __init__(
        self,
        batches: Sequence[Any],
        transform: Transforms | None,
        device: torch.device,
        threads: int | None = None,
        skips: bool = False,
        cache: FrameCache | None = None,
    ) -> None:
        self._skips = skips
        self._batches = [_Batch(batch, transform) for batch in batches]
        try:
            self._resolution = Resolution(self._groups(), device, threads, cache)
        except SKIPPABLE:
            if not skips:
                raise
            for batch in self._batches:
                batch.leave_out([failing_references(group) for group in batch.groups])
            self._resolution = Resolution(self._groups(), device, threads, cache)

    def _groups(self) -> list[Group]:
        return [group for batch in self._batches for group in batch.groups]

    def __len__(self) -> int:
        return len(self._batches)

    @property
    def frames(self) -> int:
        """How many frames they ask for."""
        return self._resolution.frames

    @property
    def size_bytes(self) -> int:
        """Memory that `start` takes on the device; see `Resolution`."""
        return self._resolution.size_bytes

    def start(self) -> PlannedBatches:
        """Take memory and begin to decode; returns itself."""
        self._resolution.start()
        return self

    def wait(self) -> list[DecodedBatch]:
        """Return the decoded batches; what decoding cost stands with the first of them.

        Raises:
            VideoDatasetError: what `videodataset.decode` raises, unless it is to be skipped.
            ValueError: it is not known which part of a batch is of a sample to skip.
        """
        if self._skips:
            failures, values = iter(self._resolution.failures()), iter(self._resolution.values())
        else:
            values = iter(self._resolution.wait())
            failures = iter([{}] * len(self._groups()))
        work, out = self._resolution.work, []
        for batch in self._batches:
            count = len(batch.groups)
            out.append(batch.decoded(list(islice(values, count)), list(islice(failures, count)), work))
            work = Work()
        return out

    def cancel(self) -> None:
        """Stop decoding, and wait until nothing is written any more."""
        self._resolution.cancel()


class _Batch:
    """One batch, and which of its samples were left out."""

    def __init__(self, batch: Any, transform: Transforms | None) -> None:
        self._batch, self._transform = batch, transform
        self.groups = self._groups_of_batch()
        self._skipped: list[Skipped] = []
        self._empty = False

    def _groups_of_batch(self) -> list[Group]:
        groups: list[Group] = []

        def note(value: Any, key: str | None) -> Any:
            if isinstance(value, PendingFrames) and value.begun:
                return value  # torch's pinning thread has begun with it
            chosen = transform_of(self._transform, key)
            groups.append(
                value.group(chosen) if isinstance(value, PendingFrames) else Group(RefColumns([value]), chosen)
            )
            return value

        map_leaves(self._batch, (PendingFrames, FrameRef), note)
        return groups

    def leave_out(self, failures: Sequence[dict[int, Exception]]) -> None:
        """Leave out the samples whose references cannot be looked up."""
        if not any(failures):
            return
        keep = self._note(failures)
        if self._empty:
            self.groups = []
        else:
            self._batch = without_rows(self._batch, keep, lambda pending: taken(pending, keep))
            self.groups = self._groups_of_batch()

    def decoded(self, values: list[Any], failures: Sequence[dict[int, Exception]], work: Work) -> DecodedBatch:
        """Put what its groups have become in their places, without the samples that failed."""
        frames = sum(group.columns.frames for group in self.groups)
        batch = self._batch
        keep = self._note(failures) if any(failures) else None
        if self._empty:
            return DecodedBatch(None, frames, work, self._skipped)
        if keep is not None:
            batch = without_rows(batch, keep, lambda pending: pending)
            values = [rows_of(value, keep) for value in values]
        left = iter(values)

        def place(value: Any, key: str | None) -> Any:
            if isinstance(value, PendingFrames) and value.begun:
                return value.wait()
            decoded = next(left)
            return decoded if isinstance(value, PendingFrames) else decoded[0]

        return DecodedBatch(map_leaves(batch, (PendingFrames, FrameRef), place), frames, work, self._skipped)

    def _note(self, failures: Sequence[dict[int, Exception]]) -> Keep:
        """Note the samples that fail, each once, and return which ones stay."""
        counts = {len(group.columns) for group in self.groups}
        if len(counts) > 1:
            raise ValueError(
                f"on_error='skip' cannot tell which references are of one sample: the batch holds {sorted(counts)} of "
                f"them at different places"
            )
        keep = np.ones(counts.pop(), bool)
        for group, failing in zip(self.groups, failures, strict=True):
            refs = group.columns.refs() if failing else []
            for k, error in failing.items():
                if keep[k]:
                    keep[k] = False
                    self._skipped.append(skipped(refs[k], error))
        self._empty = not keep.any()
        return keep
