"""What the cache keeps, gives back, and pushes out; frames are told apart by their values."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch

from videodataset.fetch.frame_cache import FrameCache, Wanted

SHAPE = (3, 2, 2)
FRAME = 12  # bytes of uint8


def made(
    frames: list[int], cost: float | list[float] = 1.0, video: str = "a", form: str = "f", device: str = "cpu"
) -> Wanted:
    """Frames whose every value is their number, in the middle of a larger tensor."""
    out = torch.zeros((len(frames) + 2, *SHAPE), dtype=torch.uint8, device=device)
    rows = np.arange(1, len(frames) + 1)
    out[1:-1] = torch.tensor(frames, dtype=torch.uint8, device=device)[:, None, None, None]
    return Wanted(form, video, 100, np.array(frames), out, rows, np.broadcast_to(np.float64(cost), len(frames)).copy())


def held(cache: FrameCache, frames: list[int], video: str = "a", form: str = "f", device: str = "cpu") -> list[int]:
    """Which of the frames come out, in their places; that they are the right ones is asserted."""
    wanted = made(frames, video=video, form=form, device=device)
    wanted.out.zero_()
    (filled,) = cache.take([wanted])
    got = wanted.out[1:-1, 0, 0, 0].tolist()
    assert not wanted.out[[0, -1]].any(), "its neighbours are not written to"
    assert [got[k] for k in filled.tolist()] == [frames[k] for k in filled.tolist()]
    assert all(value == 0 for k, value in enumerate(got) if k not in filled)
    return [frames[k] for k in filled.tolist()]


def test_what_is_kept_comes_back(device: str) -> None:
    cache = FrameCache(100 * FRAME, device)
    assert held(cache, [1, 2, 3], device=device) == []
    cache.put([made([1, 2, 5], device=device), made([2, 9, 9], device=device), made([1], video="b", device=device)])
    assert held(cache, [5, 3, 1, 1, 9, 2], device=device) == [5, 1, 1, 9, 2]
    assert held(cache, [1, 2], video="b", device=device) == [1]
    assert held(cache, [1, 2], form="g", device=device) == []
    assert cache.frames == 5


def test_size_is_kept_to() -> None:
    cache = FrameCache(32 * FRAME)
    for start in range(0, 90, 10):
        cache.put([made(list(range(start + 1, start + 11)))])
    assert cache.frames == 32
    assert held(cache, list(range(1, 91))) == list(range(1, 33)), "of equal cost: those that came first stay"
    small = FrameCache(FRAME - 1)
    small.put([made([1])])
    assert held(small, [1]) == []


def test_dearer_frames_push_out_cheaper_ones() -> None:
    cache = FrameCache(16 * FRAME)
    cache.put([made(list(range(1, 17)), cost=list(range(1, 17)))])
    cache.put([made([20, 21, 22], cost=[2.5, 100, 0.5])])
    assert held(cache, list(range(1, 30))) == [*range(3, 17), 20, 21]
    cache.put([made(list(range(40, 60)), cost=50)])
    assert held(cache, list(range(1, 60))) == [21, *range(40, 55)]


def test_what_epochs_do_not_use_makes_room() -> None:
    cache = FrameCache(16 * FRAME)
    cache.put([made(list(range(1, 17)), cost=4)])
    cache.begin_epoch()
    assert held(cache, [1, 2]) == [1, 2]
    cache.put([made([30], cost=3.9)])
    assert held(cache, [30]) == [], "all have been used in this epoch or the one before"
    cache.begin_epoch()
    cache.put([made(list(range(40, 60)), cost=3)])
    assert held(cache, list(range(1, 60))) == [1, 2, *range(40, 54)]


def test_formats_out_of_use_give_their_memory_back() -> None:
    cache = FrameCache(16 * FRAME)
    cache.put([made(list(range(1, 17)), form="before")])
    for _ in range(3):
        cache.begin_epoch()
    cache.put([made([1, 2], form="now")])
    assert held(cache, [1, 2], form="now") == [1, 2]
    assert held(cache, [1, 2], form="before") == []


def test_the_cache_behind(device: str) -> None:
    behind = FrameCache(100 * FRAME, "cpu")
    cache = FrameCache(16 * FRAME, device, behind)
    cache.put([made(list(range(1, 17)), cost=1, device=device)])
    cache.put([made([50, 51], cost=9, device=device), made([60], cost=9, video="b", device=device)])
    assert (cache.frames, behind.frames) == (16, 3)
    assert sorted(held(cache, [*range(1, 17), 50, 51], device=device)) == [*range(1, 17), 50, 51]
    assert held(cache, [60], video="b", device=device) == [60]


@pytest.mark.parametrize("size", [0, "none", -5])
def test_sizes(size: Any) -> None:
    with pytest.raises(ValueError, match="number of bytes"):
        FrameCache(size)
