"""The loader: the same batches with any workers, and clean ends."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import textwrap
import time
from collections.abc import Iterator
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import pytest
import torch
from torch.utils._pytree import tree_leaves
from torch.utils.data import ConcatDataset, Dataset, IterableDataset, Subset

import videodataset as vd
from clips import ClipStore
from processes import children, wait_until_gone
from reference import Reference, assert_picture

pytestmark = pytest.mark.timeout(240)
SMALL = vd.Transform(size=(24, 32))


@dataclass
class Row:
    frame: vd.FrameRef
    number: int


class Clips(Dataset[Any], vd.BaseVideoDataset):
    """Frames of two videos, of several cameras, in any nesting."""

    def __init__(self, paths: list[str], length: int = 24) -> None:
        self.paths, self.length = paths, length

    def __len__(self) -> int:
        return self.length

    def __getitem__(self, i: int) -> Any:
        path = self.paths[i % len(self.paths)]
        jitter = int(self.rng(i).integers(3))
        return {
            "image": self.frames(path, i),
            "cameras": [self.frames(other, [i, i + jitter]) for other in self.paths],
            "row": Row(self.frames(path, i, crop=(8, 8, 40, 40)), i),
            "noise": self.rng(i, 1).random(),
            "number": i,
        }


@pytest.fixture
def paths(clip: ClipStore) -> list[str]:
    return [str(clip("h264_15b")), str(clip("hevc_pyramid"))]


def batches(dataset: Any, epochs: int = 2, **arguments: Any) -> list[Any]:
    arguments = {"batch_size": 5, "shuffle": True, "seed": 7, "transform": SMALL} | arguments
    loader = vd.DataLoader(dataset, **arguments)
    return [batch for _ in range(epochs) for batch in loader]


def flat(value: Any) -> list[Any]:
    leaves = tree_leaves(value)
    return [each for leaf in leaves for each in ([leaf.frame, leaf.number] if isinstance(leaf, Row) else [leaf])]


def assert_same(got: list[Any], want: list[Any]) -> None:
    a, b = flat(got), flat(want)
    assert len(a) == len(b)
    assert all(torch.equal(x, y) for x, y in zip(a, b, strict=True))


def test_right_frames_in_every_place(paths: list[str], reference: Reference) -> None:
    seen = []
    for batch in batches(Clips(paths), epochs=1, transform=None):
        for k, number in enumerate(batch["number"].tolist()):
            name = ["h264_15b", "hevc_pyramid"][number % 2]
            assert_picture(batch["image"][k], reference(name)[number])
            assert_picture(batch["cameras"][1][k, 0], reference("hevc_pyramid")[number])
            assert torch.equal(batch["row"].frame[k], batch["image"][k][:, 8:48, 8:48])
            seen.append(number)
    assert sorted(seen) == list(range(24))
    assert seen != sorted(seen)


@pytest.mark.parametrize(("workers", "method"), [(2, "fork"), (8, "fork"), (2, "spawn"), (2, "forkserver")], ids=str)
@pytest.mark.parametrize("persistent", [False, True])
def test_same_seed_same_batches(paths: list[str], workers: int, method: str, persistent: bool) -> None:
    if persistent and workers == 8:
        pytest.skip("covered with two workers")
    want = batches(Clips(paths))
    options = {"num_workers": workers, "multiprocessing_context": method, "persistent_workers": persistent}
    assert_same(batches(Clips(paths), **options), want)
    first, second = want[: len(want) // 2], want[len(want) // 2 :]
    assert [b["number"].tolist() for b in first] != [b["number"].tolist() for b in second], "an epoch repeats another"


def test_seed_epoch_and_earlier_use(paths: list[str]) -> None:
    want = batches(Clips(paths), epochs=3)
    epoch = len(want) // 3
    loader = vd.DataLoader(Clips(paths), batch_size=5, shuffle=True, seed=7, transform=SMALL)
    next(iter(loader))
    loader.set_epoch(2)
    assert_same(list(loader), want[2 * epoch :])
    other = batches(Clips(paths), epochs=1, seed=8)
    assert [b["number"].tolist() for b in other] != [b["number"].tolist() for b in want[:epoch]]
    unseeded = []
    for _ in range(2):
        torch.manual_seed(5)
        unseeded.append(batches(Clips(paths), epochs=1, seed=None))
    assert_same(*unseeded)
    given = [batches(Clips(paths), epochs=1, seed=None, generator=torch.Generator().manual_seed(3)) for _ in range(2)]
    assert_same(*given)


def test_workers_started_anew_for_twenty_epochs(paths: list[str]) -> None:
    """With decoder threads alive in this process when it forks."""
    dataset = Clips(paths, length=6)
    vd.decode([vd.FrameRef(path, 3) for path in paths], threads=2)
    want = batches(dataset, epochs=20, batch_size=3)
    assert_same(batches(dataset, epochs=20, batch_size=3, num_workers=2, multiprocessing_context="fork"), want)


def test_through_subsets(paths: list[str]) -> None:
    whole = Clips(paths)
    parts = ConcatDataset([Subset(whole, range(0, 12)), Subset(whole, range(12, 24))])
    assert_same(batches(parts), batches(whole))


class Stream(IterableDataset[Any], vd.BaseVideoDataset):
    def __init__(self, path: str) -> None:
        self.path = path

    def __iter__(self) -> Iterator[Any]:
        info = torch.utils.data.get_worker_info()
        worker, workers = (info.id, info.num_workers) if info else (0, 1)
        return ({"image": self.frames(self.path, i)} for i in range(worker, 12, workers))


@pytest.mark.parametrize("workers", [0, 2])
def test_iterable(paths: list[str], workers: int) -> None:
    got = batches(Stream(paths[0]), epochs=1, shuffle=None, batch_size=3, num_workers=workers)
    assert sorted(len(b["image"]) for b in got) == [3, 3, 3, 3]
    want = vd.decode([vd.FrameRef(paths[0], i) for i in range(12)], transform=SMALL)
    frames = torch.cat([b["image"] for b in got])
    for frame in want:
        assert any(torch.equal(frame, other) for other in frames)


@pytest.mark.parametrize("workers", [0, 2])
def test_without_batching(paths: list[str], workers: int) -> None:
    samples = batches(Clips(paths), epochs=1, batch_size=None, shuffle=False, num_workers=workers)
    assert len(samples) == 24
    assert samples[3]["image"].shape == (3, 24, 32)
    assert torch.equal(samples[3]["image"], vd.decode(vd.FrameRef(paths[1], 3), transform=SMALL))


class Ragged(Clips):
    def __getitem__(self, i: int) -> Any:
        return self.frames(self.paths[0], list(range(i % 3 + 1)))


@pytest.mark.parametrize("workers", [0, 2])
def test_ragged_clips(paths: list[str], workers: int) -> None:
    got = batches(Ragged(paths), epochs=1, batch_size=6, shuffle=False, num_workers=workers)
    assert [len(each) for each in got[0]] == [1, 2, 3, 1, 2, 3]


def test_transform_by_key(paths: list[str]) -> None:
    floats = vd.Transform(size=(8, 8), dtype=torch.float32)
    for workers in (0, 2):
        got = batches(Clips(paths), epochs=1, transform={"image": floats, "cameras": SMALL}, num_workers=workers)
        assert got[0]["image"].dtype == torch.float32
        assert got[0]["cameras"][0].shape == (5, 2, 3, 24, 32)
        assert got[0]["row"].frame.shape == (5, 3, 40, 40)


def test_stock_loader(paths: list[str]) -> None:
    want = batches(Clips(paths), epochs=1, shuffle=False)
    collate = partial(vd.collate, transform=SMALL)
    for workers in (0, 2):
        stock = torch.utils.data.DataLoader(Clips(paths), batch_size=5, num_workers=workers, collate_fn=collate)
        got = list(stock)
        assert isinstance(got[0]["image"], vd.PendingFrames)
        for a, b in zip(got, want, strict=True):
            assert torch.equal(a["image"].to("cpu"), b["image"])
            assert torch.equal(a["cameras"][1][:, 0] * 1, b["cameras"][1][:, 0])


class Failing(Clips):
    def __getitem__(self, i: int) -> Any:
        if i == 13:
            raise KeyError("sample 13 is bad")
        return super().__getitem__(i)


@pytest.mark.parametrize("workers", [0, 2])
def test_an_exception_in_the_data_set_comes_after_the_batches_before_it(paths: list[str], workers: int) -> None:
    loader = vd.DataLoader(Failing(paths), batch_size=4, num_workers=workers, transform=SMALL)
    got: list[Any] = []
    with pytest.raises(KeyError, match="sample 13 is bad"):
        got.extend(batch["number"].tolist() for batch in loader)
    assert got == [[0, 1, 2, 3], [4, 5, 6, 7], [8, 9, 10, 11]]


class OutOfRange(Clips):
    def __getitem__(self, i: int) -> Any:
        return self.frames(self.paths[0], 1000 if i == 13 else i)


@pytest.mark.parametrize("workers", [0, 2])
def test_an_error_of_a_video_keeps_its_type_and_names_the_file(paths: list[str], workers: int) -> None:
    loader = vd.DataLoader(OutOfRange(paths), batch_size=4, num_workers=workers)
    got: list[Any] = []
    with pytest.raises(vd.FrameIndexError, match=r"h264_15b\.mp4: no frame 1000"):
        got.extend(loader)
    assert len(got) == 3


def bad_collate(samples: Any) -> Any:
    raise RuntimeError("collate is bad")


@pytest.mark.parametrize("workers", [0, 2])
def test_an_exception_in_collate(paths: list[str], workers: int) -> None:
    loader = vd.DataLoader(Clips(paths), batch_size=4, num_workers=workers, collate_fn=bad_collate)
    with pytest.raises(RuntimeError, match="collate is bad"):
        next(iter(loader))


@pytest.mark.parametrize("workers", [0, 2])
def test_early_break_leaves_nothing(paths: list[str], workers: int) -> None:
    before = children()
    loader = vd.DataLoader(Clips(paths), batch_size=4, num_workers=workers, transform=SMALL, seed=1)
    first = [b["number"].tolist() for _, b in zip(range(2), loader, strict=False)]
    again = []
    for batch in loader:
        again.append(batch["number"].tolist())
        if len(again) == 2:
            break
    assert first == again
    wait_until_gone(children() - before)


@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")  # what was being received is cut off
def test_a_killed_worker_is_reported(paths: list[str]) -> None:
    before = children()
    loader = vd.DataLoader(Clips(paths, length=4000), batch_size=4, num_workers=2, transform=SMALL)
    batches_ = iter(loader)
    next(batches_)

    seen = []

    def kill_one_and_go_on(batches: Iterator[Any]) -> None:
        os.kill(max(children() - before), signal.SIGKILL)
        seen.extend(batch["number"].tolist() for batch in batches)

    with pytest.raises(RuntimeError, match=r"worker.*(exited unexpectedly|killed).*samples \d+") as caught:
        kill_one_and_go_on(batches_)
    message = str(caught.value)
    del caught  # and with it the frames that hold the workers
    held = [int(number) for number in message.split("samples ")[1].rstrip(".").split(", ")]
    last = seen[-1][-1] if seen else 3  # the batch got before, samples 0 to 3, is not in `seen`
    assert min(held) in (last + 1, last + 5), "the next batch, or that behind the other worker's"
    assert all(number // 4 % 2 == held[0] // 4 % 2 for number in held), "every second batch of four"
    del batches_
    wait_until_gone(children() - before)


LOOP = """
    import sys, torch, videodataset as vd

    class Clips(torch.utils.data.Dataset, vd.BaseVideoDataset):
        def __len__(self):
            return 1_000_000

        def __getitem__(self, i):
            return self.frames(sys.argv[1], i % 40)

    if __name__ == "__main__":
        print("began", flush=True)
        for k, batch in enumerate(vd.DataLoader(Clips(), batch_size=4, num_workers=int(sys.argv[2]))):
            if k == 2:
                print("running", flush=True)
"""


def group_is_alive(group: int) -> bool:
    try:
        os.killpg(group, 0)
    except ProcessLookupError:
        return False
    return True


@pytest.mark.parametrize("workers", [0, 2])
def test_ctrl_c(paths: list[str], tmp_path: Path, workers: int) -> None:
    script = tmp_path / "loop.py"
    script.write_text(textwrap.dedent(LOOP))
    process = subprocess.Popen(
        [sys.executable, str(script), paths[0], str(workers)],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
    )
    assert process.stdout is not None
    while process.stdout.readline() != "running\n":
        assert process.poll() is None
    os.killpg(process.pid, signal.SIGINT)
    _, errors = process.communicate(timeout=30)
    assert process.returncode == -signal.SIGINT or "KeyboardInterrupt" in errors
    deadline = time.monotonic() + 10
    while group_is_alive(process.pid):
        assert time.monotonic() < deadline, "something of its process group was left behind"
        time.sleep(0.1)


@pytest.mark.parametrize(
    "arguments", [{"prefetch_batches": -1}, {"device": "tpu"}, {"num_workers": -1}, {"batch_size": 0}]
)
def test_refused(paths: list[str], arguments: dict[str, Any]) -> None:
    with pytest.raises(ValueError, match=r"."):
        vd.DataLoader(Clips(paths), **arguments)


@pytest.mark.parametrize("ahead", [0, 1, 5])
def test_any_number_ahead_gives_the_same(paths: list[str], ahead: int) -> None:
    assert_same(batches(Clips(paths), epochs=1, prefetch_batches=ahead), batches(Clips(paths), epochs=1))
