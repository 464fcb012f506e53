"""The mixin."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch

import videodataset as vd
from clips import ClipStore


class Plain(vd.BaseVideoDataset):
    """Without `__init__`, and without torch's Dataset."""


def test_works_without_init(clip: ClipStore) -> None:
    assert Plain().frames(clip("h264"), 3) == vd.FrameRef(clip("h264"), 3)
    assert Plain().frames("a.mp4", seconds=[1.0], size=(8, 8)) == vd.FrameRef("a.mp4", seconds=[1.0], size=(8, 8))


def test_random_numbers_depend_on_seed_epoch_sample_and_draw_only() -> None:
    def numbers(seed: int, epoch: int, i: int, draw: int = 0) -> list[float]:
        dataset = Plain()
        dataset.seed_with(seed, torch.tensor(epoch))
        dataset.rng(17).random(5)  # what was drawn before does not matter
        rows: list[float] = dataset.rng(i, draw).random(3).tolist()
        return rows

    assert numbers(1, 2, 3) == numbers(1, 2, 3)
    different: list[Any] = [numbers(1, 2, 3), numbers(2, 2, 3), numbers(1, 3, 3), numbers(1, 2, 4), numbers(1, 2, 3, 1)]
    assert len({tuple(each) for each in different}) == 5
    assert numbers(-1, 0, 0) == numbers(-1, 0, 0)


def test_random_numbers_are_spread_evenly() -> None:
    """First draws of neighbouring samples: uniform (mean 1/2, variance 1/12) and without correlation."""
    dataset = Plain()
    drawn = np.array([dataset.rng(i).random() for i in range(4000)])
    assert abs(drawn.mean() - 0.5) < 0.02
    assert abs(drawn.var() - 1 / 12) < 0.01
    assert abs(np.corrcoef(drawn[:-1], drawn[1:])[0, 1]) < 0.06
