"""Samples to batches: references become `PendingFrames`, everything else what torch makes of it."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from torch.utils.data import default_collate
from torch.utils.data._utils.collate import default_collate_fn_map

from videodataset.convert import Transform
from videodataset.data.frame_ref import FrameRef
from videodataset.data.nested import map_leaves, mapping_like
from videodataset.data.pending import PendingFrames

#: One transform for all frames, or one for each key of the samples; keys that are not named get none.
Transforms = Transform | Mapping[str, Transform]


def collate(
    samples: Sequence[Any],
    *,
    transform: Transforms | None = None,
    inner: Callable[[Sequence[Any]], Any] | None = None,
) -> Any:
    """Collate samples as torch's `default_collate` does, and dataclasses too; references become `PendingFrames`.

    Args:
        samples: what the data set gave: any nesting of mappings, sequences, named tuples, dataclasses.
        transform: what is made of the frames, for all or by key.
        inner: a collate function that knows nothing of references, such as those of Hugging Face's `transformers`.
            It gets the samples, which must be mappings, without the keys that hold references.

    Use it as `collate_fn=videodataset.collate`, with arguments through `functools.partial`.
    """
    batch = _collate(samples) if inner is None else _beside(samples, inner)
    return batch if transform is None else with_transform(batch, transform)


def with_transform(batch: Any, transform: Transforms) -> Any:
    """Give a transform to the pending frames and single references of a batch, those that have none."""

    def give(value: Any, key: str | None) -> Any:
        chosen = transform_of(transform, key)
        if value.transform is None and chosen is not None:
            value.transform = chosen
        return value

    return map_leaves(batch, (PendingFrames,), give)


def transform_of(transform: Transforms | None, key: str | None) -> Transform | None:
    """Return the transform of a key."""
    if isinstance(transform, Mapping):
        return transform.get(key) if key is not None else None
    return transform


def _collate(samples: Sequence[Any]) -> Any:
    first = samples[0]
    if isinstance(first, FrameRef):
        return PendingFrames(samples)
    if dataclasses.is_dataclass(first) and not isinstance(first, type):
        names = [field.name for field in dataclasses.fields(first) if field.init]
        return dataclasses.replace(
            first, **{name: _collate([getattr(sample, name) for sample in samples]) for name in names}
        )
    if isinstance(first, Mapping):
        collated = {key: _collate([sample[key] for sample in samples]) for key in first}
        return mapping_like(first, collated)
    if isinstance(first, tuple) and hasattr(first, "_fields"):
        return type(first)(*(_collate(each) for each in _columns(samples)))
    if isinstance(first, (list, tuple)):
        return [_collate(each) for each in _columns(samples)]
    return default_collate(list(samples))


def _columns(samples: Sequence[Sequence[Any]]) -> list[tuple[Any, ...]]:
    lengths = {len(sample) for sample in samples}
    if len(lengths) > 1:
        raise ValueError(
            f"the samples of a batch hold sequences of {sorted(lengths)} items at the same place. Make them equally "
            f"long, or let one reference ask for several frames: those may differ in number."
        )
    return list(zip(*samples, strict=True))


def _beside(samples: Sequence[Any], inner: Callable[[Sequence[Any]], Any]) -> Any:
    if not all(isinstance(sample, Mapping) for sample in samples):
        raise TypeError(f"with inner=, samples must be mappings, got {type(samples[0]).__name__}")
    keys = [key for key, value in samples[0].items() if isinstance(value, FrameRef)]
    rest = [{key: value for key, value in sample.items() if key not in keys} for sample in samples]
    batch = dict(inner(rest)) if rest[0] else {}
    return batch | {key: PendingFrames([sample[key] for sample in samples]) for key in keys}


def _collate_refs(samples: Sequence[FrameRef], *, collate_fn_map: Any = None) -> PendingFrames:
    return PendingFrames(samples)


# torch's extension point: so its default_collate, and every loader built on it, takes references as they are.
default_collate_fn_map[FrameRef] = _collate_refs
