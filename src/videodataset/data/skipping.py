"""Samples whose frames cannot be had, taken out of a batch."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
import torch

from videodataset.data.frame_ref import FrameRef
from videodataset.data.nested import mapping_like, sequence_like
from videodataset.data.pending import PendingFrames
from videodataset.errors import (
    DamagedVideoError,
    FrameIndexError,
    NoVideoStreamError,
    UnreadableVideoError,
    UnsupportedVideoError,
)

Keep = npt.NDArray[np.bool_]

#: What is wrong with one sample; any other error is not, and comes out of the loader.
SKIPPABLE = (DamagedVideoError, FrameIndexError, NoVideoStreamError, UnreadableVideoError, UnsupportedVideoError)


class Skipped(NamedTuple):
    """A sample that was left out.

    Attributes:
        source: the file, or what stands for it in messages.
        reason: name of the error's class.
        message: its text.
    """

    source: str
    reason: str
    message: str


def skipped(ref: FrameRef, error: Exception) -> Skipped:
    """Return the note of a reference that failed.

    Raises:
        Exception: the error itself, where it is not the sample's.
    """
    if not isinstance(error, SKIPPABLE):
        raise error
    name = ref.source if isinstance(ref.source, str) else str(getattr(ref.source, "name", type(ref.source).__name__))
    return Skipped(name, type(error).__name__, str(error))


def without_rows(batch: Any, keep: Keep, pending: Callable[[PendingFrames], Any], key: str | None = None) -> Any:
    """Return a batch without some of its samples.

    Args:
        batch: any nesting of mappings, sequences, named tuples and dataclasses. Tensors, arrays, and sequences of what
            is neither, have the samples as their first dimension; single numbers, texts and None are the batch's.
        keep: bool (B,), which samples stay.
        pending: what becomes of pending frames.
        key: what messages call the batch.

    Raises:
        ValueError: a tensor or array has not the samples as its first dimension.
    """

    def part(value: Any, name: Any) -> Any:
        return without_rows(value, keep, pending, name if isinstance(name, str) else key)

    if isinstance(batch, PendingFrames):
        return pending(batch)
    if isinstance(batch, (torch.Tensor, np.ndarray)):
        if batch.ndim == 0 or len(batch) != len(keep):
            raise ValueError(
                f"on_error='skip' cannot tell which part of {f'{key!r}, ' if key else ''}shape {tuple(batch.shape)}, "
                f"is of which of the {len(keep)} samples: let collate_fn give the samples as the first dimension"
            )
        return rows_of(batch, keep)
    if dataclasses.is_dataclass(batch) and not isinstance(batch, type):
        fields = {field.name: getattr(batch, field.name) for field in dataclasses.fields(batch) if field.init}
        return dataclasses.replace(batch, **{name: part(value, name) for name, value in fields.items()})
    if isinstance(batch, Mapping):
        return mapping_like(batch, {name: part(value, name) for name, value in batch.items()})
    if _is_sequence(batch):
        if hasattr(batch, "_fields"):
            return type(batch)(*(part(value, name) for name, value in zip(batch._fields, batch, strict=True)))
        if len(batch) == len(keep) and not any(map(_may_hold_rows, batch)):
            return sequence_like(batch, rows_of(list(batch), keep))
        return sequence_like(batch, [part(value, None) for value in batch])
    return batch


def rows_of(value: Any, keep: Keep) -> Any:
    """Return what a group of references became, without some of them: a tensor, a `FrameBatch`, or a list of these."""
    if isinstance(value, list):
        return [each for each, kept in zip(value, keep, strict=True) if kept]
    return value[keep] if isinstance(value, np.ndarray) else value[torch.from_numpy(keep)]


def taken(pending: PendingFrames, keep: Keep) -> PendingFrames:
    """Return pending frames without some of their references."""
    return PendingFrames(rows_of(pending.refs(), keep), pending.transform)


def _is_sequence(value: Any) -> bool:
    return isinstance(value, Sequence) and not isinstance(value, (str, bytes, bytearray, PendingFrames))


def _may_hold_rows(value: Any) -> bool:
    kinds = (torch.Tensor, np.ndarray, PendingFrames, Mapping)
    return isinstance(value, kinds) or _is_sequence(value) or dataclasses.is_dataclass(value)
