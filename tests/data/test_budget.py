"""Batches on their way take no more memory than they may."""

from __future__ import annotations

from typing import Any

import pytest
import torch

import videodataset as vd
from clips import CLIPS, ClipStore
from samples import EveryFrame
from videodataset.data.budget import budget_of

pytestmark = pytest.mark.timeout(120)
SMALL = vd.Transform(size=(24, 32), dtype=torch.float32)


def size_of_a_frame(device: str) -> int:
    """float32 RGB of 24 x 32 and, on a GPU, the 8-bit 4:2:0 picture behind it."""
    recipe = CLIPS["h264_15b"]
    return 3 * 24 * 32 * 4 + (recipe.width * recipe.height * 3 // 2 if device == "cuda" else 0)


@pytest.mark.parametrize("batches", [1, 2, 3])
def test_batches_ahead_fit_in(clip: ClipStore, device: str, batches: int) -> None:
    path = str(clip("h264_15b"))
    frame = size_of_a_frame(device)
    options: dict[str, Any] = {"batch_size": 4, "transform": SMALL, "device": device, "prefetch_batches": 5}
    free = [
        (loader.statistics().batches_ahead, batch)
        for loader in [vd.DataLoader(EveryFrame(path), **options)]
        for batch in loader
    ]
    assert [ahead for ahead, _ in free] == [5, 4, 3, 2, 1, 0]
    loader = vd.DataLoader(EveryFrame(path), memory_budget=batches * 4 * frame, **options)
    tight = [(loader.statistics().batches_ahead, batch) for batch in loader]
    assert [ahead for ahead, _ in tight] == [*[batches - 1] * (6 - batches), *range(batches - 1, -1, -1)]
    assert all(torch.equal(got["image"], want["image"]) for (_, got), (_, want) in zip(tight, free, strict=True))


def test_a_batch_that_does_not_fit_in(clip: ClipStore, device: str) -> None:
    frame = size_of_a_frame(device)
    loader = vd.DataLoader(
        EveryFrame(str(clip("h264_15b"))), batch_size=4, memory_budget=4 * frame - 1, transform=SMALL, device=device
    )
    message = rf"{4 * frame - 1:,} bytes does not hold one batch: 4 frames take {4 * frame:,} bytes, {frame:,} each"
    with pytest.raises(ValueError, match=message):
        next(iter(loader))
    with pytest.raises(ValueError, match="number of bytes"):
        vd.DataLoader(EveryFrame(""), memory_budget="much")


def test_without_a_limit_of_ones_own(device: str) -> None:
    budget = budget_of(None, torch.device(device))
    assert not budget.is_asked_for
    if device == "cpu":
        assert budget.size_bytes == float("inf")
    else:
        assert 0 < budget.size_bytes < torch.cuda.mem_get_info()[1] / 10
