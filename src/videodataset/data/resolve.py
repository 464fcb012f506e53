"""Whole batches: every reference in them, under whatever key, in one plan."""

from __future__ import annotations

from collections.abc import Sequence
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
from videodataset.fetch import Work


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


class BatchOnItsWay:
    """A collated batch whose references are looked up; and decoded from `start` on.

    Args:
        batch: any nesting with `PendingFrames`, or with single `FrameRef`s, which become single frames.
        transform: what is made of the frames, for all or by key.
        device: where the frames go.
        threads: see `videodataset.decode`.
        skips: whether samples with a reference that fails are left out, instead of raising its error. Pending frames
            have a sample's reference at the same place; single references are those of one sample.
    """

    def __init__(
        self,
        batch: Any,
        transform: Transforms | None,
        device: torch.device,
        threads: int | None = None,
        skips: bool = False,
    ) -> None:
        self._batch, self._transform, self._skips = batch, transform, skips
        self._groups = self._groups_of_batch()
        self._resolution: Resolution | None = None
        self._skipped: list[Skipped] = []
        self._empty = False
        if not self._groups:
            return
        try:
            self._resolution = Resolution(self._groups, device, threads)
        except SKIPPABLE:
            if not skips:
                raise
            keep = self._note([failing_references(group) for group in self._groups])
            if not self._empty:
                self._batch = without_rows(batch, keep, lambda pending: taken(pending, keep))
                self._groups = self._groups_of_batch()
                self._resolution = Resolution(self._groups, device, threads)

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

    @property
    def frames(self) -> int:
        """How many frames it asks for."""
        return 0 if self._resolution is None else self._resolution.frames

    @property
    def size_bytes(self) -> int:
        """Memory that `start` takes on the device; see `Resolution`."""
        return 0 if self._resolution is None else self._resolution.size_bytes

    def start(self) -> BatchOnItsWay:
        """Take memory and begin to decode; returns itself."""
        if self._resolution is not None:
            self._resolution.start()
        return self

    def wait(self) -> DecodedBatch:
        """Return the decoded batch.

        Raises:
            VideoDatasetError: what `videodataset.decode` raises, unless it is to be skipped.
            ValueError: it is not known which part of the batch is of a sample to skip.
        """
        batch, decoded = self._batch, list[Any]()
        if self._resolution is not None and not self._skips:
            decoded = self._resolution.wait()
        elif self._resolution is not None:
            failures, decoded = self._resolution.failures(), self._resolution.values()
            keep = self._note(failures) if any(failures) else None
            if keep is not None and not self._empty:
                batch = without_rows(batch, keep, lambda pending: pending)
                decoded = [rows_of(value, keep) for value in decoded]
        work = Work() if self._resolution is None else self._resolution.work
        if self._empty:
            return DecodedBatch(None, self.frames, work, self._skipped)
        values = iter(decoded)

        def place(value: Any, key: str | None) -> Any:
            if isinstance(value, PendingFrames) and value.begun:
                return value.wait()
            decoded_value = next(values)
            return decoded_value if isinstance(value, PendingFrames) else decoded_value[0]

        return DecodedBatch(map_leaves(batch, (PendingFrames, FrameRef), place), self.frames, work, self._skipped)

    def cancel(self) -> None:
        """Stop decoding, and wait until nothing is written any more."""
        if self._resolution is not None:
            self._resolution.cancel()

    def _note(self, failures: Sequence[dict[int, Exception]]) -> Keep:
        """Note the samples that fail, each once, and return which ones stay."""
        counts = {len(group.columns) for group in self._groups}
        if len(counts) > 1:
            raise ValueError(
                f"on_error='skip' cannot tell which references are of one sample: the batch holds {sorted(counts)} of "
                f"them at different places"
            )
        keep = np.ones(counts.pop(), bool)
        for group, failing in zip(self._groups, failures, strict=True):
            refs = group.columns.refs() if failing else []
            for k, error in failing.items():
                if keep[k]:
                    keep[k] = False
                    self._skipped.append(skipped(refs[k], error))
        self._empty = not keep.any()
        return keep
