"""Collating nested samples."""

from __future__ import annotations

from collections import OrderedDict, namedtuple
from dataclasses import dataclass
from functools import partial
from typing import Any

import pytest
import torch
from torch.utils.data import default_collate

import videodataset as vd
from clips import ClipStore

Pair = namedtuple("Pair", ["left", "right"])


@dataclass
class Sample:
    camera: vd.FrameRef
    action: float


def test_any_nesting(clip: ClipStore) -> None:
    def sample(k: int) -> dict[str, Any]:
        ref = vd.FrameRef(clip("h264"), k)
        return {
            "cameras": [ref, {"deep": (ref, k)}],
            "pair": Pair(ref, float(k)),
            "record": Sample(ref, k / 2),
            "ordered": OrderedDict(x=ref),
            "text": "one",
            "array": torch.full((2,), k),
        }

    batch = vd.collate([sample(1), sample(2)])
    want = vd.decode([vd.FrameRef(clip("h264"), k) for k in (1, 2)])
    for pending in (
        batch["cameras"][0],
        batch["cameras"][1]["deep"][0],
        batch["pair"].left,
        batch["record"].camera,
        batch["ordered"]["x"],
    ):
        assert isinstance(pending, vd.PendingFrames)
        assert torch.equal(pending.wait(), want)
    assert batch["cameras"][1]["deep"][1].tolist() == [1, 2]
    assert batch["pair"].right.tolist() == [1.0, 2.0]
    assert batch["record"].action.tolist() == [0.5, 1.0]
    assert isinstance(batch["ordered"], OrderedDict)
    assert batch["text"] == ["one", "one"]
    assert batch["array"].tolist() == [[1, 1], [2, 2]]


def test_without_references_as_torch_does() -> None:
    samples = [{"a": k, "b": [torch.ones(2) * k, {"c": (k, "x")}], "d": Pair(k, 1.5)} for k in range(3)]
    ours, torchs = vd.collate(samples), default_collate(samples)
    assert ours["a"].tolist() == torchs["a"].tolist()
    assert torch.equal(ours["b"][0], torchs["b"][0])
    assert ours["b"][1]["c"][0].tolist() == torchs["b"][1]["c"][0].tolist()
    assert ours["d"].left.tolist() == torchs["d"].left.tolist() == [0, 1, 2]


def test_sequences_of_different_lengths_are_refused_with_a_way_out(clip: ClipStore) -> None:
    ref = vd.FrameRef(clip("h264"), 1)
    with pytest.raises(ValueError, match="one reference ask for several frames"):
        vd.collate([[ref], [ref, ref]])


def test_beside_a_collator_that_knows_no_references(clip: ClipStore) -> None:
    def collator(samples: list[dict[str, Any]]) -> dict[str, Any]:
        assert all(isinstance(value, int) for sample in samples for value in sample.values())
        return {key: torch.tensor([sample[key] for sample in samples]) for key in samples[0]}

    samples = [{"pixel_values": vd.FrameRef(clip("h264"), k), "labels": k} for k in range(3)]
    batch = partial(vd.collate, inner=collator)(samples)
    assert batch["labels"].tolist() == [0, 1, 2]
    assert batch["pixel_values"].shape == (3, 3, 96, 128)


def test_transform_for_all_or_by_key(clip: ClipStore) -> None:
    samples = [{"a": vd.FrameRef(clip("h264"), k), "b": [vd.FrameRef(clip("h264"), k)]} for k in range(2)]
    small, floats = vd.Transform(size=(8, 8)), vd.Transform(size=(16, 16), dtype=torch.float32)
    both = vd.collate(samples, transform=small)
    assert both["a"].shape == both["b"][0].shape == (2, 3, 8, 8)
    each = vd.collate(samples, transform={"a": small, "b": floats})
    assert each["a"].shape == (2, 3, 8, 8)
    assert each["b"][0].shape == (2, 3, 16, 16)
    assert each["b"][0].dtype == torch.float32
    assert vd.collate(samples, transform={"b": floats})["a"].shape == (2, 3, 96, 128)
