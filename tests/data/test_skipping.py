"""`on_error="skip"`: exactly the samples that fail go, from every part of their batch, and are told."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pytest
import torch
from torch.utils.data import Dataset

import videodataset as vd
from clips import ClipStore
from reference import Reference, assert_picture
from videodataset.data.skipping import rows_of, skipped, taken, without_rows

pytestmark = pytest.mark.timeout(240)
SMALL = vd.Transform(size=(24, 32))


class Samples(Dataset[Any], vd.BaseVideoDataset):
    """(path, frame) each; beside it a second camera, a label, a name and a number."""

    def __init__(self, asked: list[tuple[str, int]], other: str) -> None:
        self.asked, self.other = asked, other

    def __len__(self) -> int:
        return len(self.asked)

    def __getitem__(self, i: int) -> Any:
        path, frame = self.asked[i]
        return {
            "image": self.frames(path, frame),
            "second": self.frames(self.other, [i % 8, 3]),
            "label": torch.tensor([i, i * i]),
            "name": f"sample {i}",
            "number": i,
        }


@pytest.fixture
def asked(clip: ClipStore, tmp_path: Path) -> list[tuple[str, int]]:
    sound, hole, text = (str(clip(name)) for name in ("h264_15b", "zero_hole", "text"))
    missing = str(tmp_path / "missing.mp4")
    return [
        (sound, 0), (text, 0), (sound, 5), (missing, 3), (hole, 2), (sound, 10_000), (hole, 24), (sound, 7),
        (missing, 1), (missing, 2), (text, 1), (text, 2), (sound, 9), (sound, 11), (hole, 21), (sound, 13),
    ]  # fmt: skip


def fails(path: str, frame: int) -> bool:
    try:
        vd.decode(vd.FrameRef(path, frame), device="cpu")
    except vd.VideoDatasetError:
        return True
    return False


@pytest.mark.parametrize("workers", [0, 2])
def test_what_cannot_be_had_is_left_out(
    asked: list[tuple[str, int]], clip: ClipStore, reference: Reference, device: str, workers: int
) -> None:
    bad = [i for i, (path, frame) in enumerate(asked) if fails(path, frame)]
    assert {1, 3, 5, 8, 9, 10, 11} < set(bad) < set(range(len(asked))), "the hole must spoil some frames, not all"
    loader = vd.DataLoader(
        Samples(asked, str(clip("hevc_pyramid"))), batch_size=4, num_workers=workers, on_error="skip", device=device
    )
    with pytest.warns(RuntimeWarning, match=rf"epoch 0: {len(bad)} samples were left out: 3 of .*(text|missing)"):
        got = list(loader)
    seen: list[int] = []
    for batch in got:
        numbers = batch["number"].tolist()
        assert len(numbers) == len(batch["image"]) == len(batch["second"]) == len(batch["name"])
        assert batch["label"].tolist() == [[i, i * i] for i in numbers]
        assert batch["name"] == [f"sample {i}" for i in numbers]
        assert batch["image"].device.type == batch["second"].device.type == device
        for k, i in enumerate(numbers):
            path, frame = asked[i]
            if "h264_15b" in path:
                assert_picture(batch["image"][k].cpu(), reference("h264_15b")[frame])
            assert_picture(batch["second"][k, 0].cpu(), reference("hevc_pyramid")[i % 8])
        seen += numbers
    assert seen == [i for i in range(len(asked)) if i not in bad], "and none of the batch that fails as a whole"
    statistics = loader.statistics()
    assert statistics.samples_skipped == len(bad)
    counts = {(Path(each.source).name, each.reason): each.samples for each in statistics.skipped}
    assert counts["missing.mp4", "UnreadableVideoError"] == 3
    assert counts[Path(asked[1][0]).name, "UnreadableVideoError"] == 3
    assert counts[Path(asked[0][0]).name, "FrameIndexError"] == 1
    assert counts[Path(asked[4][0]).name, "DamagedVideoError"] == len(bad) - 7
    assert all(each.source in each.message for each in statistics.skipped)


def test_without_it_the_error_comes_out(asked: list[tuple[str, int]], clip: ClipStore, device: str) -> None:
    loader = vd.DataLoader(Samples(asked, str(clip("hevc_pyramid"))), batch_size=4, device=device)
    with pytest.raises(vd.UnreadableVideoError, match="text"):
        list(loader)


def test_a_sample_goes_with_any_of_its_references(clip: ClipStore) -> None:
    sound, text = str(clip("h264_15b")), str(clip("text"))

    class Pairs(Dataset[Any]):
        def __len__(self) -> int:
            return 6

        def __getitem__(self, i: int) -> Any:
            return [vd.FrameRef(sound, i), (vd.FrameRef(text if i == 4 else sound, i), i)]

    loader = vd.DataLoader(Pairs(), batch_size=6, on_error="skip")
    with pytest.warns(RuntimeWarning, match="1 samples"):
        ((left, (right, numbers)),) = list(loader)
    assert numbers.tolist() == [0, 1, 2, 3, 5]
    assert torch.equal(left, right)


def test_resume_counts_batches_that_did_not_come(asked: list[tuple[str, int]], clip: ClipStore) -> None:
    def loader() -> vd.DataLoader:
        return vd.DataLoader(
            Samples(asked, str(clip("hevc_pyramid"))),
            batch_size=4,
            shuffle=True,
            seed=11,
            on_error="skip",
            transform=SMALL,
        )

    with pytest.warns(RuntimeWarning, match="left out"):
        whole = [batch["number"].tolist() for batch in loader()]
    for stop in range(1, len(whole)):
        first = loader()
        for _ in zip(range(stop), first, strict=False):
            pass
        second = loader()
        second.load_state_dict(first.state_dict())
        with pytest.warns(RuntimeWarning, match="left out"):
            assert [batch["number"].tolist() for batch in second] == whole[stop:]


def test_single_samples(asked: list[tuple[str, int]], clip: ClipStore) -> None:
    bad = [i for i, (path, frame) in enumerate(asked) if fails(path, frame)]
    loader = vd.DataLoader(Samples(asked, str(clip("hevc_pyramid"))), batch_size=None, on_error="skip")
    with pytest.warns(RuntimeWarning, match="left out"):
        assert [sample["number"] for sample in loader] == [i for i in range(len(asked)) if i not in bad]


def test_arguments(clip: ClipStore) -> None:
    dataset = Samples([(str(clip("h264_15b")), 0)], str(clip("h264_15b")))
    with pytest.raises(ValueError, match="on_error"):
        vd.DataLoader(dataset, on_error="ignore")  # type: ignore[arg-type]
    with pytest.raises(ValueError, match="report_every"):
        vd.DataLoader(dataset, report_every=0)


class Pair(NamedTuple):
    a: Any
    b: Any


@dataclass
class Holder:
    tensor: torch.Tensor
    text: str


def test_rows_of_any_nesting() -> None:
    keep = np.array([True, False, True])
    pending = vd.PendingFrames([vd.FrameRef("a.mp4", k) for k in range(3)])
    batch = {
        "array": np.arange(6).reshape(3, 2),
        "pair": Pair(torch.arange(3), ["x", "y", "z"]),
        "holder": Holder(torch.arange(3.0), "xyz"),
        "transposed": [torch.arange(3), torch.arange(3) * 2, torch.arange(3) * 3],
        "columns": (["p", "q", "r"], [1, 2, 3]),
        "of_the_batch": [1, "abc", None, 2.5],
        "frames": pending,
    }
    got = without_rows(batch, keep, lambda value: taken(value, keep))
    assert got["array"].tolist() == [[0, 1], [4, 5]]
    assert isinstance(got["pair"], Pair)
    assert (got["pair"].a.tolist(), got["pair"].b) == ([0, 2], ["x", "z"])
    assert (got["holder"].tensor.tolist(), got["holder"].text) == ([0, 2], "xyz")
    assert [each.tolist() for each in got["transposed"]] == [[0, 2], [0, 4], [0, 6]]
    assert got["columns"] == (["p", "r"], [1, 3])
    assert got["of_the_batch"] == [1, "abc", None, 2.5]
    assert [int(ref.numbers) for ref in got["frames"].refs()] == [0, 2]
    frames = vd.FrameBatch(torch.arange(3)[:, None, None, None], torch.arange(3.0), torch.ones(3))
    assert rows_of(frames, keep).pts_seconds.tolist() == [0, 2]
    assert rows_of([1, 2, 3], keep) == [1, 3]


@pytest.mark.parametrize("part", [torch.zeros(()), torch.zeros(2, 3), np.zeros(4)], ids=["scalar", "other", "array"])
def test_parts_without_samples_are_refused(part: Any) -> None:
    with pytest.raises(ValueError, match=r"'weights'.*3 samples.*collate_fn"):
        without_rows({"weights": part}, np.array([True, False, True]), lambda value: value)


def test_errors_that_are_not_the_samples_come_out() -> None:
    ref = vd.FrameRef("a.mp4", 0)
    assert skipped(ref, vd.DamagedVideoError("a.mp4: bad")) == ("a.mp4", "DamagedVideoError", "a.mp4: bad")
    with pytest.raises(vd.NvdecUnavailableError):
        skipped(ref, vd.NvdecUnavailableError("out of memory"))
