"""A loader with a cache gives the same frames, and decodes what it does not hold."""

from __future__ import annotations

import os
import shutil
from pathlib import Path
from typing import Any

import pytest
import torch
from torch.utils.data import Dataset

import videodataset as vd
from clips import ClipStore
from reference import Reference, assert_picture
from samples import EveryFrame

pytestmark = pytest.mark.timeout(120)
SMALL = vd.Transform(size=(24, 32))


class Clips(Dataset[Any], vd.BaseVideoDataset):
    """Single frames of two videos, and clips that overlap."""

    def __init__(self, paths: list[str]) -> None:
        self.paths = paths

    def __len__(self) -> int:
        return 36

    def __getitem__(self, i: int) -> Any:
        path = self.paths[i % len(self.paths)]
        return {"one": self.frames(path, i), "clip": self.frames(path, [i, i + 2, i, i + 3]), "number": i}


@pytest.fixture
def paths(clip: ClipStore, tmp_path: Path) -> list[str]:
    return [str(shutil.copy(clip(name), tmp_path / name)) for name in ("h264_15b", "hevc_pyramid")]


def same(got: list[Any], want: list[Any]) -> bool:
    return len(got) == len(want) and all(
        torch.equal(a[key], b[key]) for a, b in zip(got, want, strict=True) for key in ("one", "clip", "number")
    )


@pytest.mark.parametrize("workers", [0, 2])
@pytest.mark.parametrize("size", ["64MiB", 20 * 3 * 24 * 32])
@pytest.mark.parametrize("transform", [SMALL, vd.Transform(size=(24, 32), dtype=torch.float32, dimension_order="NHWC")])
def test_same_frames(paths: list[str], device: str, workers: int, size: Any, transform: vd.Transform) -> None:
    options: dict[str, Any] = {"batch_size": 5, "shuffle": True, "seed": 3, "transform": transform, "device": device}
    plain = vd.DataLoader(Clips(paths), **options)
    cached = vd.DataLoader(Clips(paths), cache=size, num_workers=workers, **options)
    hits = []
    for _ in range(3):
        assert same(list(cached), list(plain))
        statistics = cached.statistics()
        hits.append(statistics.cache_hits)
        if statistics.cache_hits == statistics.frames:
            assert statistics.pictures_decoded == statistics.bytes_read == 0
    assert hits[1] > 0
    if size == "64MiB":
        assert hits[1] == hits[2] == 36 * 5
        assert "cache 100%" in str(cached.statistics())
    else:
        assert hits[2] < 36 * 5


def test_a_changed_file_is_not_stale(paths: list[str], clip: ClipStore, reference: Reference, device: str) -> None:
    loader = vd.DataLoader(Clips(paths[:1]), batch_size=6, cache="64MiB", device=device)
    list(loader)
    draft = paths[0] + ".new"
    shutil.copy(clip("h264_one_gop"), draft)
    os.replace(draft, paths[0])
    for batch in loader:
        for pixels, number in zip(batch["one"], batch["number"].tolist(), strict=True):
            assert_picture(pixels.cpu(), reference("h264_one_gop")[number])


def test_two_loaders_share_one(paths: list[str], device: str) -> None:
    cache = vd.FrameCache("64MiB", device)
    first = vd.DataLoader(Clips(paths), batch_size=6, cache=cache, device=device, transform=SMALL)
    second = vd.DataLoader(
        Clips(paths), batch_size=4, cache=cache, device=device, transform=SMALL, shuffle=True, seed=1
    )
    list(first)
    list(second)
    assert second.statistics().cache_hits == 36 * 5
    other = vd.DataLoader(Clips(paths), batch_size=4, cache=cache, device=device, transform=vd.Transform(size=(24, 33)))
    list(other)
    assert other.statistics().cache_hits < 36 * 5, "of another size"


def test_frames_that_the_loop_changes_are_not_changed_in_the_cache(paths: list[str], device: str) -> None:
    loader = vd.DataLoader(Clips(paths), batch_size=6, cache="64MiB", device=device, transform=SMALL)
    want = [{key: value.clone() for key, value in batch.items()} for batch in loader]
    for batch in loader:
        batch["one"].zero_()
    assert same(list(loader), want)


def test_skipped_samples_are_not_kept(clip: ClipStore, device: str) -> None:
    class Holes(Dataset[Any]):
        def __len__(self) -> int:
            return 40

        def __getitem__(self, i: int) -> Any:
            return {"one": vd.FrameRef(str(clip("zero_hole")), i), "number": i}

    loader = vd.DataLoader(Holes(), batch_size=5, cache="64MiB", on_error="skip", device=device)
    seen = []
    for _ in range(2):
        with pytest.warns(RuntimeWarning, match="left out"):
            seen.append([number for batch in loader for number in batch["number"].tolist()])
        assert loader.statistics().samples_skipped == 40 - len(seen[-1])
    # A frame behind the hole in its run fails with it; asked for alone, as what a cache lacks may be, it need not.
    assert set(seen[0]) <= set(seen[1]) < set(range(40))
    assert loader.statistics().cache_hits == len(seen[0])


def test_a_cache_of_half_the_data_holds_half_of_it(clip: ClipStore, device: str) -> None:
    """And not, as one that keeps the newest, next to nothing of an order that is another one in every epoch."""
    dataset = EveryFrame(str(clip("h264_15b")), 40)
    size = 20 * 3 * 24 * 32
    loader = vd.DataLoader(dataset, 5, shuffle=True, seed=1, cache=size, transform=SMALL, device=device)
    hits = []
    for _ in range(5):
        list(loader)
        hits.append(loader.statistics().cache_hits)
    assert hits[0] == 0
    assert hits[-2:] == [20, 20]
