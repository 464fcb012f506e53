"""The planned shuffle: every sample once, pictures about once, frames right."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from torch.utils.data import Dataset

import videodataset as vd
from clips import CLIPS, ClipStore
from reference import Reference, assert_picture

pytestmark = pytest.mark.timeout(240)
NAMES = ["h264_15b", "hevc_closed_15b", "hevc_pyramid", "h264_open_gop"]
SMALL = vd.Transform(size=(24, 32))


class Frames(Dataset[Any], vd.BaseVideoDataset):
    """Clips of `length` frames from every `step`th frame of every video on."""

    def __init__(self, paths: list[str], length: int = 1, step: int = 1) -> None:
        self.paths, self.length = paths, length
        counts = [len(vd.VideoDecoder(path)) for path in paths]
        self.rows = [(k, f) for k, count in enumerate(counts) for f in range(0, count - length + 1, step)]

    def __len__(self) -> int:
        return len(self.rows)

    def __getitem__(self, i: int) -> Any:
        video, first = self.rows[i]
        asked = first if self.length == 1 else range(first, first + self.length)
        return {"image": self.frames(self.paths[video], asked), "number": i}

    def frame_table(self) -> vd.FrameTable:
        video, first = zip(*self.rows, strict=True)
        return vd.FrameTable(self.paths, video, first, [self.length] * len(video))


@pytest.fixture
def paths(clip: ClipStore) -> list[str]:
    return [str(clip(name)) for name in NAMES]


def test_every_sample_once_in_every_epoch(paths: list[str]) -> None:
    dataset = Frames(paths)
    sampler = vd.GopShuffleSampler(dataset, window=32, seed=5)
    epochs = []
    for epoch in range(3):
        sampler.set_epoch(epoch)
        epochs.append(list(sampler))
        assert list(sampler) == epochs[-1], "the order depends on seed and epoch alone"
        assert sorted(epochs[-1]) == list(range(len(dataset)))
        assert len(sampler) == len(dataset)
    assert epochs[0] != epochs[1] != epochs[2]
    assert list(vd.GopShuffleSampler(dataset, window=32, seed=6)) != epochs[0]


@settings(max_examples=25, suppress_health_check=[HealthCheck.function_scoped_fixture], deadline=None)
@given(replicas=st.integers(1, 9), window=st.integers(1, 90), group=st.integers(1, 5), epoch=st.integers(0, 9))
def test_shares_are_equal_and_disjoint(paths: list[str], replicas: int, window: int, group: int, epoch: int) -> None:
    dataset = Frames(paths)
    shares = []
    for rank in range(replicas):
        sampler = vd.GopShuffleSampler(dataset, window=window, group=group, num_replicas=replicas, rank=rank)
        sampler.set_epoch(epoch)
        shares.append(list(sampler))
        assert len(shares[-1]) == len(sampler) == len(dataset) // replicas
    together = [index for share in shares for index in share]
    assert len(set(together)) == len(together) == len(dataset) // replicas * replicas


@pytest.mark.parametrize("group", [1, 2])
def test_gops_lie_in_one_window(clip: ClipStore, group: int) -> None:
    """All but those that a window's end cuts; of a clip with a sync picture every 16 frames, groups and all."""
    assert CLIPS["hevc_closed_15b"].count == 48
    dataset = Frames([str(clip("hevc_closed_15b"))])
    order = vd.GopShuffleSampler(dataset, window=16 * group, group=group).order()
    units = [{int(i) // 16 // group for i in order[k : k + 16 * group]} for k in range(0, 48, 16 * group)]
    if group == 1:
        assert [len(each) for each in units] == [1, 1, 1]
        assert {unit for each in units for unit in each} == {0, 1, 2}
    else:  # the groups are frames 0 to 31 and 32 to 47, in either order
        assert units in ([{0}, {1}], [{0, 1}, {0}])


def test_pictures_are_decoded_once(paths: list[str], device: str) -> None:
    """One window: every picture of the data once, for it plans all batches together."""
    dataset = Frames(paths)
    batches = 4
    size = -(-len(dataset) // batches)
    loader = vd.DataLoader(
        dataset, size, sampler=vd.GopShuffleSampler(dataset, window=batches * size), transform=SMALL, device=device
    )
    list(loader)
    statistics = loader.statistics()
    assert statistics.frames == len(dataset)
    assert len(dataset) <= statistics.pictures_decoded <= 1.05 * len(dataset)
    plain = vd.DataLoader(dataset, size, shuffle=True, seed=0, transform=SMALL, device=device)
    list(plain)
    assert plain.statistics().pictures_decoded > 1.4 * len(dataset), "else this test shows nothing"


@pytest.mark.parametrize("workers", [0, 2])
def test_right_frames(paths: list[str], reference: Reference, device: str, workers: int) -> None:
    dataset = Frames(paths, step=3)
    sampler = vd.GopShuffleSampler(dataset, window=20, seed=2)
    loader = vd.DataLoader(dataset, 5, sampler=sampler, num_workers=workers, device=device)
    for epoch in range(2):
        got = list(loader)
        sampler.set_epoch(epoch)
        numbers = [number for batch in got for number in batch["number"].tolist()]
        assert numbers == list(sampler), "the loader has counted the epochs"
        for batch in got:
            for pixels, number in zip(batch["image"], batch["number"].tolist(), strict=True):
                video, frame = dataset.rows[number]
                assert_picture(pixels.cpu(), reference(NAMES[video])[frame])


@pytest.mark.parametrize("stop", range(0, 9))
def test_resume_at_any_batch(paths: list[str], stop: int) -> None:
    """Within windows of three batches, too."""
    dataset = Frames(paths[:2], step=3)

    def loader() -> vd.DataLoader:
        return vd.DataLoader(
            dataset, 4, sampler=vd.GopShuffleSampler(dataset, window=12, seed=4), transform=SMALL, seed=1
        )

    whole = loader()
    want = [batch for _ in range(2) for batch in whole]
    first = loader()
    iterator = iter(first)
    for _ in range(stop):
        next(iterator)
    second = loader()
    second.load_state_dict(first.state_dict())
    got = [batch for _ in range(2) for batch in second]
    assert [b["number"].tolist() for b in got] == [b["number"].tolist() for b in want[stop:]]
    assert all(torch.equal(a["image"], b["image"]) for a, b in zip(got, want[stop:], strict=True))


def test_groups_save_pictures_of_clips(clip: ClipStore) -> None:
    """Clips of 8 cross from GOP to GOP; where neighbours are in one window, their pictures are decoded once."""
    dataset = Frames([str(clip("h264_15b")), str(clip("hevc_closed_15b"))], length=8)
    decoded = []
    for group in (1, 3):
        sampler = vd.GopShuffleSampler(dataset, window=16, group=group, seed=1)
        loader = vd.DataLoader(dataset, 8, sampler=sampler, transform=SMALL)
        list(loader)
        decoded.append(loader.statistics().pictures_decoded)
    assert decoded[1] < decoded[0]


def test_mixing(paths: list[str]) -> None:
    dataset = Frames(paths)
    whole = vd.GopShuffleSampler(dataset, window=len(dataset)).mixing(16)
    narrow = vd.GopShuffleSampler(dataset, window=16).mixing(16)
    assert whole.same_video == pytest.approx(whole.same_video_in_full_shuffle, abs=0.06)
    assert narrow.same_video > 1.5 * narrow.same_video_in_full_shuffle
    assert narrow.neighbour_frames < narrow.neighbour_frames_in_full_shuffle
    # Of equally long videos a full shuffle takes a sample's own with probability (n - 1) / (N - 1).
    counts = np.bincount([video for video, _ in dataset.rows])
    expected = sum(n * (n - 1) for n in counts) / len(dataset) / (len(dataset) - 1)
    assert whole.same_video_in_full_shuffle == pytest.approx(expected, abs=0.06)


def test_what_does_not_fit_is_refused(paths: list[str]) -> None:
    dataset = Frames(paths)
    sampler = vd.GopShuffleSampler(dataset, window=40)
    with pytest.raises(ValueError, match="window of 40 samples must be a multiple of batch_size=16, such as 32"):
        vd.DataLoader(dataset, 16, sampler=sampler)
    frame = 3 * 24 * 32
    tight = vd.DataLoader(dataset, 8, sampler=sampler, transform=SMALL, memory_budget=2 * 24 * frame)
    with pytest.raises(ValueError, match=r"two windows of 5 batches: 40 frames.*At most 3 batches fit in"):
        next(iter(tight))
    assert next(iter(vd.DataLoader(dataset, 8, sampler=sampler, transform=SMALL, memory_budget=2 * 40 * frame)))


def test_arguments(paths: list[str]) -> None:
    dataset = Frames(paths[:1])
    for wrong in ({"window": 0}, {"group": 0}, {"num_replicas": 2, "rank": 2}, {"num_replicas": 1000, "rank": 0}):
        with pytest.raises(ValueError, match=r"at least 1|rank must be|samples for 1000"):
            vd.GopShuffleSampler(dataset, **wrong)
    dataset.rows.append((0, 10_000))
    with pytest.raises(vd.FrameIndexError, match="no frame 10000"):
        vd.GopShuffleSampler(dataset)
