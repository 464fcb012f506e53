"""Whole batches: every reference in them, under whatever key, in one plan."""

from __future__ import annotations

from typing import Any

import torch

from videodataset.data.collate import Transforms, transform_of
from videodataset.data.columns import RefColumns
from videodataset.data.decode import Group, Resolution
from videodataset.data.frame_ref import FrameRef
from videodataset.data.nested import map_leaves
from videodataset.data.pending import PendingFrames


class BatchOnItsWay:
    """A collated batch whose references are being decoded.

    Args:
        batch: any nesting with `PendingFrames`, or with single `FrameRef`s, which become single frames.
        transform: what is made of the frames, for all or by key.
        device: where the frames go.
        threads: see `videodataset.decode`.
    """

    def __init__(
        self, batch: Any, transform: Transforms | None, device: torch.device, threads: int | None = None
    ) -> None:
        self._batch = batch
        groups: list[Group] = []

        def note(value: Any, key: str | None) -> Any:
            if isinstance(value, PendingFrames) and value.begun:
                return value  # torch's pinning thread has begun with it
            chosen = transform_of(transform, key)
            groups.append(
                value.group(chosen) if isinstance(value, PendingFrames) else Group(RefColumns([value]), chosen)
            )
            return value

        map_leaves(batch, (PendingFrames, FrameRef), note)
        self._resolution = Resolution(groups, device, threads) if groups else None

    @property
    def frames(self) -> int:
        """How many frames it holds."""
        return 0 if self._resolution is None else self._resolution.frames

    def wait(self) -> Any:
        """Return the batch with tensors in the place of references. Raises what `videodataset.decode` raises."""
        values = iter(self._resolution.wait() if self._resolution is not None else ())

        def place(value: Any, key: str | None) -> Any:
            if isinstance(value, PendingFrames) and value.begun:
                return value.wait()
            decoded = next(values)
            return decoded if isinstance(value, PendingFrames) else decoded[0]

        return map_leaves(self._batch, (PendingFrames, FrameRef), place)

    def cancel(self) -> None:
        """Stop decoding, and wait until nothing is written any more."""
        if self._resolution is not None:
            self._resolution.cancel()
