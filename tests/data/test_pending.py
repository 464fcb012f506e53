"""Pending frames: they travel as references and behave as the tensor that they become."""

from __future__ import annotations

import pickle

import numpy as np
import pytest
import torch
from torch.utils.data import default_collate

import videodataset as vd
from clips import ClipStore


@pytest.fixture
def refs(clip: ClipStore) -> list[vd.FrameRef]:
    names = ["h264", "h264_15b", "h264", "h264_mkv"]
    return [vd.FrameRef(clip(name), number) for name, number in zip(names, (3, 17, 40, 9), strict=True)]


def test_round_trip_of_every_kind_of_reference(clip: ClipStore) -> None:
    path = clip("h264")
    refs = [
        vd.FrameRef(path, 3),
        vd.FrameRef(path, seconds=0.5, match="nearest", tolerance_s=0.1),
        vd.FrameRef(path, [1, 2, 3], crop=(0, 0, 8, 8)),
        vd.FrameRef(path, []),
        vd.FrameRef(path, seconds=[0.25, 1.5]),
        vd.FrameRef("other.mp4", 5, byte_range=(10, 20)),
    ]
    pending = vd.PendingFrames(refs)
    assert pending.refs() == refs
    assert pickle.loads(pickle.dumps(pending)).refs() == refs
    assert len(pending) == 6


def test_is_small_between_processes(clip: ClipStore) -> None:
    path = str(clip("h264"))
    pending = vd.PendingFrames([vd.FrameRef(path, k % 40) for k in range(1000)])
    assert len(pickle.dumps(pending)) < 25 * 1000 + 2000


def test_torch_collates_references(refs: list[vd.FrameRef]) -> None:
    batch = default_collate([{"image": ref, "number": k} for k, ref in enumerate(refs)])
    assert isinstance(batch["image"], vd.PendingFrames)
    assert batch["number"].tolist() == [0, 1, 2, 3]
    assert torch.equal(batch["image"].to("cpu"), vd.decode(refs))


def test_behaves_as_a_tensor(refs: list[vd.FrameRef]) -> None:
    want = vd.decode(refs)

    def pending() -> vd.PendingFrames:
        return vd.PendingFrames(refs)

    assert pending().shape == want.shape
    assert pending().dtype == torch.uint8
    assert torch.equal(pending().wait(), want)
    assert torch.equal(pending().cpu(), want)
    assert torch.equal(pending().pin_memory().wait(), want)
    assert torch.equal(pending()[1], want[1])
    assert torch.equal(pending()[:, 0, ::2], want[:, 0, ::2])
    assert torch.equal(pending().float() / 255, want / 255)
    assert torch.equal(pending() / 255, want / 255)
    assert torch.equal(255 - pending(), 255 - want)
    assert torch.equal(pending() == want, torch.ones_like(want, dtype=torch.bool))
    assert torch.equal(torch.cat([pending(), want]), torch.cat([want, want]))
    assert torch.equal(
        torch.nn.functional.avg_pool2d(pending().float(), 2), torch.nn.functional.avg_pool2d(want.float(), 2)
    )
    assert np.array_equal(np.asarray(pending()), want.numpy())
    assert [frame.shape for frame in pending()] == [(3, 96, 128)] * 4
    assert torch.equal(pending().to(torch.float16), want.half())


def test_is_neither_sequence_nor_mapping_nor_tensor(refs: list[vd.FrameRef]) -> None:
    from collections.abc import Mapping, Sequence

    assert not isinstance(vd.PendingFrames(refs), (Mapping, Sequence, torch.Tensor))


def test_asking_for_what_no_tensor_has_decodes_nothing(clip: ClipStore) -> None:
    pending = vd.PendingFrames([vd.FrameRef("missing.mp4", 1)])
    assert not hasattr(pending, "keys")
    assert not hasattr(pending, "__len_hint__")
    assert "not begun" in repr(pending)
    with pytest.raises(vd.UnreadableVideoError):
        pending.wait()


def test_times(clip: ClipStore) -> None:
    pending = vd.PendingFrames([vd.FrameRef(clip("h264"), k, times=True) for k in (3, 4)])
    assert pending.pts_seconds.tolist() == [3 / 25, 4 / 25]
    moved = pending.to(torch.float32)
    assert moved.data.dtype == torch.float32
    assert moved.pts_seconds.dtype == torch.float64


def test_ragged_clips_give_a_list(clip: ClipStore) -> None:
    pending = vd.PendingFrames([vd.FrameRef(clip("h264"), list(range(n))) for n in (1, 3, 2)])
    assert [len(each) for each in pending.to("cpu")] == [1, 3, 2]
