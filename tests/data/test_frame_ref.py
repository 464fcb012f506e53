"""References: what they accept, and how they travel."""

from __future__ import annotations

import pickle
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

import videodataset as vd


@pytest.mark.parametrize(
    ("arguments", "error"),
    [
        ({}, TypeError),
        ({"indices": 1, "seconds": 1.0}, TypeError),
        ({"indices": 1.5}, TypeError),
        ({"indices": [1, 2.5]}, TypeError),
        ({"indices": [[1, 2]]}, TypeError),
        ({"indices": "12"}, TypeError),
        ({"seconds": "now"}, TypeError),
        ({"seconds": [True]}, TypeError),
        ({"indices": 1, "match": "closest"}, ValueError),
        ({"indices": 1, "output": "bgr"}, ValueError),
        ({"indices": 1, "tolerance_s": -0.1}, ValueError),
        ({"indices": 1, "output": "yuv", "size": (8, 8)}, ValueError),
        ({"indices": 1, "crop": (1, 2, 3)}, ValueError),
    ],
)
def test_refused(arguments: dict[str, Any], error: type[Exception]) -> None:
    with pytest.raises(error):
        vd.FrameRef("a.mp4", **arguments)


@pytest.mark.parametrize(
    ("given", "single"),
    [(3, True), (np.int64(3), True), ([3], False), ((3, 4), False), (range(2), False), (torch.tensor([1, 2]), False)],
)
def test_numbers_in_every_form(given: Any, single: bool) -> None:
    ref = vd.FrameRef("a.mp4", given)
    assert ref.is_single is single
    assert ref.numbers.tolist() == (int(given) if single else [int(each) for each in given])
    assert not ref.by_time


@pytest.mark.parametrize("given", [0.5, [0.5], (1, 2), np.array([0.5]), torch.tensor([0.5, 1.0]), []])
def test_times_in_every_form(given: Any) -> None:
    assert vd.FrameRef("a.mp4", seconds=given).by_time


def test_travels_without_the_video() -> None:
    ref = vd.FrameRef(
        Path("none.mp4"),
        [1, 2],
        crop=[0, 0, 8, 8],
        size=[4, 4],
        times=True,
        byte_range=(100, 200),  # type: ignore[arg-type]
    )
    back = pickle.loads(pickle.dumps(ref))
    assert back == ref
    assert back.options == ref.options
    assert len(pickle.dumps(ref)) < 700
    assert ref != vd.FrameRef("none.mp4", [1, 2])
    assert "none.mp4" in repr(ref)


def test_holds_nothing_open() -> None:
    assert sys.getsizeof(vd.FrameRef("a.mp4", 3)) < 100
    assert not hasattr(vd.FrameRef("a.mp4", 3), "__dict__")
