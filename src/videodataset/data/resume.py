"""What a loader needs to go on in the middle of an epoch: its state."""

from __future__ import annotations

from typing import Any

_VERSION = 1


def state_of(
    seed: int, epoch: int, batches: int, order: dict[str, Any], dataset: Any, generator: Any
) -> dict[str, Any]:
    """Return the state of a loader; see `DataLoader.state_dict`.

    Args:
        seed: of the loader.
        epoch: that goes on.
        batches: of it that the user has got.
        order: what the order of an epoch follows from, beside seed and epoch: other values, another order.
        dataset: its own state behind these batches, where it has one.
        generator: state of the sampler's own generator as the epoch began, where it has one.
    """
    facts = {"version": _VERSION, "seed": seed, "epoch": epoch, "batches": batches}
    return facts | {"order": order, "dataset": dataset, "generator": generator}


def check_state(state: Any, order: dict[str, Any]) -> None:
    """Refuse a state that is none, or that of a loader whose batches are others.

    Raises:
        ValueError: naming what differs.
    """
    if not isinstance(state, dict) or state.get("version") != _VERSION:
        raise ValueError(f"this is no state of a videodataset.DataLoader of version {_VERSION}: {str(state)[:80]}")
    differ = [name for name, value in order.items() if state["order"].get(name) != value]
    if differ:
        found = ", ".join(f"{name} {state['order'].get(name)} (here {order[name]})" for name in differ)
        raise ValueError(f"the state is that of a loader with {found}: its batches are others. Make the loader alike.")
