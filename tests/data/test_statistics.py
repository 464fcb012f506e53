"""The loader's numbers, against formulas and against what the container says."""

from __future__ import annotations

import json
import time
from typing import Any

import pytest
import torch
from torch.utils.data import Dataset

import videodataset as vd
from clips import CLIPS, ClipStore
from clips.encode import read_packets
from videodataset.data.statistics import LoaderStatistics, nvdec_utilization

pytestmark = pytest.mark.timeout(240)
GOP = 16


class Frames(Dataset[Any], vd.BaseVideoDataset):
    """Frame 3 * i of a clip, after a while."""

    def __init__(self, path: str, length: int, seconds: float = 0.0) -> None:
        self.path, self.length, self.seconds = path, length, seconds

    def __len__(self) -> int:
        return self.length

    def __getitem__(self, i: int) -> Any:
        time.sleep(self.seconds)
        return self.frames(self.path, 3 * i)


@pytest.fixture
def path(clip: ClipStore) -> str:
    return str(clip("hevc_closed_15b"))


@pytest.mark.parametrize("workers", [0, 2])
def test_pictures_and_bytes(path: str, device: str, workers: int) -> None:
    """One frame a batch of a stream IBB..BP, whose B nothing refers to: what is needed are I, P, and the frame."""
    assert CLIPS["hevc_closed_15b"].count == 3 * GOP
    loader = vd.DataLoader(Frames(path, GOP), num_workers=workers, device=device)
    assert loader.statistics().batches == 0
    list(loader)
    statistics = loader.statistics()
    packets = sorted(read_packets(path), key=lambda packet: packet.dts)
    shown = sorted(packets, key=lambda packet: packet.pts)
    decoded = size = skipped = 0
    for frame in range(0, 3 * GOP, 3):
        place = packets.index(shown[frame])
        begin = max(k for k in range(place + 1) if packets[k].is_keyframe)
        needed = [k for k in range(begin, place + 1) if k == place or not packets[k].is_disposable]
        decoded, skipped = decoded + len(needed), skipped + place + 1 - begin - len(needed)
        size += sum(packets[k].size for k in needed)
    assert skipped > 0
    assert statistics.epoch == 0
    assert statistics.batches == statistics.frames == GOP
    assert (statistics.pictures_decoded, statistics.pictures_skipped) == (decoded, skipped)
    assert statistics.bytes_read == size
    assert statistics.fallbacks == statistics.samples_skipped == 0
    assert (statistics.nvdec_utilization is None) == (nvdec_utilization(torch.device(device)) is None)


def test_waiting_for_the_data(path: str) -> None:
    loader = vd.DataLoader(Frames(path, 8, seconds=0.02), prefetch_batches=0)
    began = time.perf_counter()
    list(loader)
    took = time.perf_counter() - began
    statistics = loader.statistics()
    assert 0.02 <= statistics.wait_seconds_p50 <= statistics.wait_seconds_p95 <= took
    assert 0.02 <= statistics.first_batch_seconds <= took
    assert 8 * 0.02 <= statistics.seconds <= took
    assert statistics.frames_per_second == pytest.approx(8 / statistics.seconds)
    assert 0.9 < statistics.wait_share <= 1


def test_waiting_for_the_loop(path: str) -> None:
    """What the loop does is no waiting: with its time in it the share would be near 1."""
    loader = vd.DataLoader(Frames(path, 8))
    for _ in loader:
        time.sleep(0.1)
    statistics = loader.statistics()
    assert statistics.seconds >= 7 * 0.1
    assert statistics.wait_share < 0.7
    assert statistics.batches_ahead == 0, "behind the last batch there is none"


def test_every_epoch_is_counted_anew(path: str) -> None:
    loader = vd.DataLoader(Frames(path, 6), batch_size=4)
    first = iter(loader)
    next(first)
    assert (loader.statistics().batches, loader.statistics().frames, loader.statistics().batches_ahead) == (1, 4, 1)
    first.close()
    list(loader)
    assert (loader.statistics().epoch, loader.statistics().batches, loader.statistics().frames) == (1, 2, 6)


def test_reports(path: str) -> None:
    heard: list[LoaderStatistics] = []
    loader = vd.DataLoader(Frames(path, 7), report=heard.append, report_every=3)
    for _ in range(2):
        list(loader)
    assert [(each.epoch, each.batches) for each in heard] == [(0, 3), (0, 6), (0, 7), (1, 3), (1, 6), (1, 7)]
    even: list[LoaderStatistics] = []
    list(vd.DataLoader(Frames(path, 6), report=even.append, report_every=3))
    assert [each.batches for each in even] == [3, 6], "the end of the epoch is not told twice"


def test_as_text_and_json(path: str) -> None:
    loader = vd.DataLoader(Frames(path, 4))
    list(loader)
    statistics = loader.statistics()
    text = str(statistics)
    assert f"{statistics.frames_per_second:,.0f} frames/s" in text
    assert f"{statistics.pictures_decoded / 4:.1f} pictures/frame" in text
    assert "\n" not in text
    assert json.loads(json.dumps(statistics.as_dict()))["frames"] == 4


class Writer:
    """What `tensorboard` needs of a `SummaryWriter`."""

    def __init__(self) -> None:
        self.scalars: list[tuple[str, float, int]] = []

    def add_scalar(self, name: str, value: float, step: int) -> None:
        self.scalars.append((name, value, step))


def test_tensorboard(path: str) -> None:
    writer = Writer()
    loader = vd.DataLoader(Frames(path, 5), report=vd.tensorboard(writer, "train"), report_every=5)
    for _ in range(2):
        list(loader)
    frames = [(value, step) for name, value, step in writer.scalars if name == "train/frames"]
    assert frames == [(5, 5), (5, 10)]
    assert {"train/wait_share", "train/frames_per_second", "train/pictures_decoded"} < {
        name for name, *_ in writer.scalars
    }
