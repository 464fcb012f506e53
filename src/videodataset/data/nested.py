"""Walks through batches: mappings, sequences, named tuples and dataclasses, as deep as they go."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Mapping, Sequence
from typing import Any


def map_leaves(batch: Any, kinds: tuple[type, ...], change: Callable[[Any, str | None], Any]) -> Any:
    """Return the batch with every leaf of some kinds changed; what holds none of them is returned as it is.

    Args:
        batch: any nesting.
        kinds: types of the leaves.
        change: called with a leaf and the key or field name nearest to it, None where there is none.
    """
    return _map(batch, kinds, change, None)


def _map(value: Any, kinds: tuple[type, ...], change: Callable[[Any, str | None], Any], key: str | None) -> Any:
    if isinstance(value, kinds):
        return change(value, key)
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        fields = {f.name: getattr(value, f.name) for f in dataclasses.fields(value) if f.init}
        return _rebuilt(value, fields, kinds, change, lambda new: dataclasses.replace(value, **new))
    if isinstance(value, Mapping):
        return _rebuilt(value, dict(value), kinds, change, lambda new: mapping_like(value, new))
    if isinstance(value, Sequence) and not isinstance(value, (str, bytes, bytearray)):
        new = [_map(each, kinds, change, key) for each in value]
        if all(a is b for a, b in zip(new, value, strict=True)):
            return value
        return type(value)(*new) if hasattr(value, "_fields") else sequence_like(value, new)
    return value


def _rebuilt(
    value: Any,
    parts: dict[Any, Any],
    kinds: tuple[type, ...],
    change: Callable[[Any, str | None], Any],
    rebuild: Callable[[dict[Any, Any]], Any],
) -> Any:
    new = {name: _map(part, kinds, change, name if isinstance(name, str) else None) for name, part in parts.items()}
    return value if all(new[name] is parts[name] for name in parts) else rebuild(new)


def mapping_like(value: Mapping[Any, Any], new: dict[Any, Any]) -> Any:
    """Return a mapping of the same kind, or a dict where that is made in some other way, such as a defaultdict."""
    try:
        return type(value)(new)  # type: ignore[call-arg]
    except TypeError:
        return new


def sequence_like(value: Sequence[Any], new: list[Any]) -> Any:
    """Return a sequence of the same kind, or a list where that is made in some other way."""
    try:
        return type(value)(new)  # type: ignore[call-arg]
    except TypeError:
        return new
