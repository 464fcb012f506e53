"""A loader that goes on in the middle of an epoch gives what would have come."""

from __future__ import annotations

import json
import pickle
from collections.abc import Iterator
from typing import Any

import pytest
import torch
from torch.utils._pytree import tree_leaves
from torch.utils.data import Dataset, DistributedSampler, IterableDataset, RandomSampler

import videodataset as vd
from clips import ClipStore

pytestmark = pytest.mark.timeout(240)
SMALL = vd.Transform(size=(24, 32))
BATCHES = 6


class Frames(Dataset[Any], vd.BaseVideoDataset):
    def __init__(self, path: str) -> None:
        self.path = path

    def __len__(self) -> int:
        return 4 * BATCHES - 1  # the last batch is a short one

    def __getitem__(self, i: int) -> Any:
        return {"image": self.frames(self.path, i), "number": i, "noise": self.rng(i).random()}


class Stream(IterableDataset[Any], vd.BaseVideoDataset):
    """The same frames in order; counts how many samples it gave."""

    def __init__(self, path: str) -> None:
        self.path, self.given = path, 0

    def __iter__(self) -> Iterator[Any]:
        info = torch.utils.data.get_worker_info()
        first, step = (0, 1) if info is None else (info.id, info.num_workers)
        for i in range(first, 4 * BATCHES - 1, step):
            self.given += 1
            yield {"image": self.frames(self.path, i), "number": i}


class StreamWithState(Stream):
    """Goes on where its state says."""

    next = 0

    def __iter__(self) -> Iterator[Any]:
        while self.next < 4 * BATCHES - 1:
            self.given += 1
            self.next += 1
            yield {"image": self.frames(self.path, self.next - 1), "number": self.next - 1}
        self.next = 0

    def state_dict(self) -> dict[str, int]:
        return {"next": self.next}

    def load_state_dict(self, state: dict[str, int]) -> None:
        self.next = state["next"]


@pytest.fixture
def path(clip: ClipStore) -> str:
    return str(clip("h264_15b"))


def loader_of(dataset: Any, device: str = "cpu", **arguments: Any) -> vd.DataLoader:
    arguments = {"batch_size": 4, "seed": 3, "transform": SMALL, "device": device} | arguments
    return vd.DataLoader(dataset, **arguments)


def assert_same(got: list[Any], want: list[Any]) -> None:
    a, b = tree_leaves(got), tree_leaves(want)
    assert len(a) == len(b)
    assert all(torch.equal(x, y) for x, y in zip(a, b, strict=True))


def stopped_after(loader: vd.DataLoader, epochs: int, batches: int) -> dict[str, Any]:
    """The state after some epochs and some batches of the next one, as it comes back from a file."""
    for _ in range(epochs):
        for _ in loader:
            pass
    batches_of_it = iter(loader)
    for _ in range(batches):
        next(batches_of_it)
    state = pickle.loads(pickle.dumps(loader.state_dict()))
    assert isinstance(state, dict)
    return state


@pytest.mark.parametrize("workers", [0, 2])
@pytest.mark.parametrize("batches", [0, 1, 3, BATCHES])
def test_what_would_have_come(device: str, path: str, batches: int, workers: int) -> None:
    """In the middle of the second epoch, and then a third one, with other numbers of workers than before."""
    whole = loader_of(Frames(path), device, shuffle=True)
    want = [batch for _ in range(3) for batch in whole]
    state = stopped_after(loader_of(Frames(path), device, shuffle=True, num_workers=2 - workers), 1, batches)
    resumed = loader_of(Frames(path), device, shuffle=True, num_workers=workers, seed=99)
    resumed.load_state_dict(state)
    # The whole epoch has been got, but the loop has not been told that it is over.
    got = [batch for _ in range(2) for batch in resumed]
    assert_same(got, want[BATCHES + batches :])


def test_a_loader_whose_workers_live_on(path: str) -> None:
    """Loaded before its workers begin, and when they have run for two epochs."""
    whole = loader_of(Frames(path), shuffle=True)
    want = [batch for _ in range(3) for batch in whole]
    state = stopped_after(loader_of(Frames(path), shuffle=True), 1, 2)
    resumed = loader_of(Frames(path), shuffle=True, num_workers=2, persistent_workers=True)
    for _ in range(2):
        resumed.load_state_dict(state)
        assert_same([batch for _ in range(2) for batch in resumed], want[BATCHES + 2 :])


def test_a_state_between_epochs(path: str) -> None:
    whole = loader_of(Frames(path), shuffle=True)
    want = [batch for _ in range(2) for batch in whole][BATCHES:]
    first = loader_of(Frames(path), shuffle=True)
    list(first)
    resumed = loader_of(Frames(path), shuffle=True)
    resumed.load_state_dict(first.state_dict())
    assert_same(list(resumed), want)


def test_a_state_is_small_and_plain(path: str) -> None:
    loader = loader_of(Frames(path), shuffle=True)
    next(iter(loader))
    assert json.loads(json.dumps(loader.state_dict()))["batches"] == 1


def test_batches_on_their_way_are_not_counted(path: str) -> None:
    loader = loader_of(Frames(path), prefetch_batches=4)
    for count, _ in enumerate(loader, 1):
        assert loader.state_dict()["batches"] == count


def test_resumed_twice(path: str) -> None:
    want = list(loader_of(Frames(path), shuffle=True))
    once = loader_of(Frames(path), shuffle=True)
    once.load_state_dict(stopped_after(loader_of(Frames(path), shuffle=True), 0, 2))
    batches = iter(once)
    next(batches)
    twice = loader_of(Frames(path), shuffle=True)
    twice.load_state_dict(once.state_dict())
    assert_same(list(twice), want[3:])


@pytest.mark.parametrize("make", ["own generator", "distributed"])
def test_samplers_of_the_users_own(path: str, make: str) -> None:
    def loader() -> vd.DataLoader:
        data = Frames(path)
        if make == "distributed":
            return loader_of(data, sampler=DistributedSampler(data, num_replicas=2, rank=1, shuffle=True, seed=4))
        return loader_of(data, sampler=RandomSampler(data, generator=torch.Generator().manual_seed(8)))

    def epochs(of: vd.DataLoader, first: int, count: int) -> list[Any]:
        batches = []
        for epoch in range(first, first + count):
            of.set_epoch(epoch)
            batches += list(of)
        return batches

    want = epochs(loader(), 0, 2)
    stopped = loader()
    batches = epochs(stopped, 0, 1)
    stopped.set_epoch(1)
    going = iter(stopped)
    next(going)
    resumed = loader()
    resumed.load_state_dict(stopped.state_dict())
    assert_same(list(resumed), want[len(batches) + 1 :])


@pytest.mark.parametrize("workers", [0, 2])
def test_iterable_data_is_gone_through_again(path: str, workers: int) -> None:
    want = list(loader_of(Stream(path), num_workers=workers))
    state = stopped_after(loader_of(Stream(path), num_workers=workers), 0, 3)
    resumed = loader_of(Stream(path), num_workers=workers)
    with pytest.warns(UserWarning, match="3 batches are gone through again"):
        resumed.load_state_dict(state)
    assert_same(list(resumed), want[3:])


def test_iterable_data_with_a_state_goes_on(path: str) -> None:
    want = list(loader_of(StreamWithState(path)))
    state = stopped_after(loader_of(StreamWithState(path)), 0, 3)
    data = StreamWithState(path)
    resumed = loader_of(data)
    resumed.load_state_dict(state)
    assert_same(list(resumed), want[3:])
    assert data.given == len(want) * 4 - 1 - 12, "what the user had got is not made again"


def test_another_loaders_state_is_refused(path: str) -> None:
    state = stopped_after(loader_of(Frames(path)), 0, 1)
    with pytest.raises(ValueError, match="batch_size 4 \\(here 3\\)"):
        loader_of(Frames(path), batch_size=3).load_state_dict(state)
    with pytest.raises(ValueError, match="no state of a videodataset"):
        loader_of(Frames(path)).load_state_dict({"epoch": 1})
