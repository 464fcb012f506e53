"""Loaders whose frames go to a GPU: what comes is what the CPU gives, and workers leave CUDA alone."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch.utils.data import Dataset

import videodataset as vd
from clips import ClipStore
from conftest import require_cuda

pytestmark = pytest.mark.timeout(240)
NAMES = ["h264_15b", "hevc_pyramid", "hevc_cropped", "vp9_odd", "h264_10bit", "rotate_90"]
SMALL = vd.Transform(size=(40, 56), dtype=torch.float32)


@pytest.fixture(params=["cuda"])
def cuda(request: pytest.FixtureRequest) -> str:
    require_cuda()
    return str(request.param)


class Clips(Dataset[Any], vd.BaseVideoDataset):
    def __init__(self, paths: list[str]) -> None:
        self.paths = paths

    def __len__(self) -> int:
        return 24

    def __getitem__(self, i: int) -> Any:
        from videodataset import _core

        path, frame = self.paths[i % len(self.paths)], int(self.rng(i).integers(16))  # the shortest has 16
        return {
            "image": self.frames(path, frame),
            "clip": self.frames(path, [frame, 3, 3]),
            "initialized": torch.cuda.is_initialized(),
            "calls": _core.driver_calls(),
        }


@pytest.fixture
def paths(clip: ClipStore) -> list[str]:
    return [str(clip(name)) for name in NAMES]


def assert_near(got: torch.Tensor, want: torch.Tensor) -> None:
    """Within 3 codes, and 1 in the mean."""
    assert got.device.type == "cuda"
    away = (got.cpu() - want).abs() * 255
    assert away.max() <= 3.01
    assert away.mean() < 1


@pytest.mark.parametrize(("workers", "start"), [(0, None), (2, "fork"), (2, "spawn")])
def test_the_frames_of_the_cpu(cuda: str, paths: list[str], workers: int, start: str | None) -> None:
    arguments: dict[str, Any] = {"batch_size": 5, "shuffle": True, "seed": 5, "transform": SMALL}
    want = list(vd.DataLoader(Clips(paths), device="cpu", **arguments))
    torch.zeros(1, device="cuda")
    loader = vd.DataLoader(Clips(paths), device=cuda, num_workers=workers, multiprocessing_context=start, **arguments)
    got = list(loader)
    assert len(got) == len(want)
    for a, b in zip(got, want, strict=True):
        assert_near(a["image"], b["image"])
        assert_near(a["clip"], b["clip"])
        if workers:
            assert not a["calls"].any()
            assert start == "fork" or not a["initialized"].any()  # a fork inherits the flag


def test_torchs_own_loader(cuda: str, paths: list[str]) -> None:
    """Pinning begins to decode; batches come in order, as tensors once they are moved."""
    loader = torch.utils.data.DataLoader(
        Clips(paths), batch_size=4, num_workers=2, pin_memory=True, collate_fn=vd.collate
    )
    for number, batch in enumerate(loader):
        refs = [vd.FrameRef(path, ref.numbers) for path, ref in
                ((ref.source, ref) for ref in batch["clip"].refs())]  # fmt: skip
        got = batch["clip"].to(cuda)
        want = vd.decode(refs, device="cpu")
        for a, b in zip(got, want, strict=True):
            assert_near(a.float() / 255, b.float() / 255)
        assert not batch["calls"].any(), number


def test_an_iterator_left_half_way(cuda: str, paths: list[str]) -> None:
    for _ in range(5):
        batches = iter(vd.DataLoader(Clips(paths), batch_size=2, device=cuda, transform=SMALL))
        next(batches)
        del batches
    loader = vd.DataLoader(Clips(paths), batch_size=24, device=cuda, transform=SMALL)
    (batch,) = loader
    assert batch["image"].shape == (24, 3, 40, 56)


def test_damage_is_told_with_its_batch(cuda: str, clip: ClipStore) -> None:
    class Damaged(Clips):
        def __getitem__(self, i: int) -> Any:
            return {"image": self.frames(self.paths[i // 24], i % 24)}

        def __len__(self) -> int:
            return 48

    loader = vd.DataLoader(Damaged([str(clip("h264_g2")), str(clip("flipped"))]), batch_size=6, device=cuda)
    batches = iter(loader)
    assert [next(batches)["image"].shape for _ in range(4)] == [(6, 3, 96, 128)] * 4
    with pytest.raises(vd.DamagedVideoError, match="flipped"):
        list(batches)
