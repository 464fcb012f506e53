"""Finish: each step against its plain definition in numpy, and all of them together."""

from __future__ import annotations

import dataclasses
from typing import Any

import numpy as np
import pytest
import torch
from pictures import planes_and_frame, stream

import torchvision_functional
from videodataset.convert import Transform, finish, to_rgb
from videodataset.convert.resize import resize

MEAN, STD = (0.485, 0.456, 0.406), (0.229, 0.224, 0.225)
#: Half a rounding step of the dtype at the largest value, 4.46.
EPSILON = {torch.float32: 2e-6, torch.float16: 2e-3, torch.bfloat16: 1.6e-2}


def frames(count: int = 3, height: int = 37, width: int = 53) -> torch.Tensor:
    return torch.from_numpy(np.random.default_rng(0).integers(0, 256, (count, height, width, 3), np.uint8))


def test_the_default_changes_only_the_layout() -> None:
    given = frames()
    assert torch.equal(finish(given, Transform()), given.permute(0, 3, 1, 2))
    assert torch.equal(finish(given, Transform(dimension_order="NHWC")), given)


@pytest.mark.parametrize("order", ["NCHW", "NHWC"])
def test_results_are_contiguous_and_own_their_memory(order: Any) -> None:
    given = frames()
    kept = given.clone()
    got = finish(given, Transform(dimension_order=order))
    assert got.is_contiguous()
    got.zero_()
    assert torch.equal(given, kept)


@pytest.mark.parametrize("order", ["NCHW", "NHWC"])
@pytest.mark.parametrize("size", [None, (20, 31)])
def test_flip_is_left_right_and_after_resizing(order: Any, size: Any) -> None:
    given = frames()
    plain = finish(given, Transform(size=size, dimension_order=order))
    flipped = finish(given, Transform(size=size, dimension_order=order, flip=True))
    assert torch.equal(flipped, plain.flip(3 if order == "NCHW" else 2))


@pytest.mark.parametrize("order", ["NCHW", "NHWC"])
@pytest.mark.parametrize("dtype", list(EPSILON))
@pytest.mark.parametrize("channels", [{}, {"mean": MEAN}, {"std": STD}, {"mean": MEAN, "std": STD}])
@pytest.mark.parametrize("flip", [False, True])
def test_scaled_and_normalised(order: Any, dtype: torch.dtype, channels: dict[str, Any], flip: bool) -> None:
    given = frames()
    got = finish(given, Transform(flip=flip, dtype=dtype, dimension_order=order, **channels))
    want = given.numpy().astype(np.float64) / 255
    want = (want - channels.get("mean", 0)) / channels.get("std", 1)
    want = want[:, :, ::-1] if flip else want
    got = got.permute(0, 2, 3, 1) if order == "NCHW" else got
    assert got.dtype == dtype
    assert np.abs(got.double().numpy() - want).max() <= EPSILON[dtype]


@pytest.mark.parametrize("dtype", list(EPSILON))
def test_black_and_white_are_exactly_0_and_1(dtype: torch.dtype) -> None:
    given = torch.tensor([0, 255], dtype=torch.uint8).view(2, 1, 1, 1).expand(2, 4, 4, 3)
    got = finish(given, Transform(dtype=dtype))
    assert (got[0] == 0).all()
    assert (got[1] == 1).all()


@pytest.mark.parametrize("shape", [(37, 53), (53, 37), (40, 40), (8, 200)])
@pytest.mark.parametrize("fill", [0, 114, (10, 20, 30)])
def test_letterbox(shape: tuple[int, int], fill: Any) -> None:
    given = frames(2, *shape)
    transform = Transform(size=(48, 64), resize="letterbox", fill=fill, dimension_order="NHWC")
    scale = min(48 / shape[0], 64 / shape[1])
    rows, columns = (int(length * scale + 0.5) for length in shape)
    want = np.empty((2, 48, 64, 3), np.uint8)
    want[:] = fill
    top, left = (48 - rows) // 2, (64 - columns) // 2
    for k in range(2):
        want[k, top : top + rows, left : left + columns] = resize(given[k], (rows, columns)).numpy()
    assert np.array_equal(finish(given, transform).numpy(), want)


def test_the_fill_is_normalised_like_the_picture() -> None:
    transform = Transform(size=16, resize="letterbox", fill=255, dtype=torch.float32, mean=MEAN, std=STD)
    corner = finish(frames(1, 8, 32), transform)[0, :, 0, 0]
    assert np.allclose(corner, [(1 - m) / s for m, s in zip(MEAN, STD, strict=True)], atol=1e-5)


@pytest.mark.parametrize("shape", [(37, 53), (53, 37), (40, 41)])
@pytest.mark.parametrize("size", [24, (24, 24), (24, 40), (41, 24)])
def test_shorter_is_torchvisions_resize_and_center_crop(shape: tuple[int, int], size: Any) -> None:
    functional = torchvision_functional.load() or pytest.skip("torchvision is not installed")
    given = frames(2, *shape)
    planes = given.permute(0, 3, 1, 2).contiguous()
    got = finish(given, Transform(size=size, resize="shorter"))
    if isinstance(size, int):
        want = functional.resize(planes, [size], antialias=True)
    else:
        scale = max(size[0] / shape[0], size[1] / shape[1])
        cover = [int(length * scale + 1e-9) for length in shape]
        want = functional.center_crop(functional.resize(planes, cover, antialias=True), list(size))
    assert got.shape == want.shape
    assert (got.int() - want.int()).abs().max() <= 1


@pytest.mark.parametrize("order", ["NCHW", "NHWC"])
@pytest.mark.parametrize("dtype", [torch.uint8, *EPSILON])
def test_out_of_any_strides(order: Any, dtype: torch.dtype) -> None:
    given = frames()
    transform = Transform(size=(20, 31), flip=True, dtype=dtype, dimension_order=order)
    want = finish(given, transform)
    for out in (
        torch.empty_like(want),
        torch.empty(tuple(2 * n for n in want.shape), dtype=dtype)[::2, ::2, ::2, ::2],
        torch.empty([want.shape[k] for k in (0, 2, 3, 1)], dtype=dtype).permute(0, 3, 1, 2),
    ):
        assert finish(given, transform, out) is out
        assert torch.equal(out, want)


def test_each_sample_its_own_crop_size_and_flip() -> None:
    """One batch from frames of different sizes: what a loader does with settings per sample."""
    _, wide = planes_and_frame("yuv420p", 80, 48)
    _, tall = planes_and_frame("yuv444p", 30, 66)
    common = Transform(size=(24, 24), dtype=torch.float32, mean=MEAN, std=STD)
    batch = torch.empty((2, 3, 24, 24))
    for k, (frame, change) in enumerate(((wide, {"crop": (3, 5, 31, 44)}), (tall, {"flip": True}))):
        transform = dataclasses.replace(common, **change)
        rgb = torch.from_numpy(to_rgb(frame, stream(), "a video", crop=transform.crop))
        finish(rgb[None], transform, out=batch[k : k + 1])
        whole = torch.from_numpy(to_rgb(frame, stream(), "a video"))
        top, left, height, width = transform.crop or (0, 0, *whole.shape[:2])
        alone = resize(whole[top : top + height, left : left + width].clone(), (24, 24)).numpy() / 255
        want = (alone - MEAN) / STD
        want = want[:, ::-1] if transform.flip else want
        assert np.abs(batch[k].permute(1, 2, 0).numpy() - want).max() <= 1e-5


def test_no_frames() -> None:
    got = finish(frames(0), Transform(size=8, dtype=torch.float16))
    assert got.shape == (0, 3, 8, 8)
    assert got.dtype == torch.float16


def test_wrong_arguments_are_named() -> None:
    with pytest.raises(ValueError, match=r"frames must be uint8 \(N, H, W, 3\), got torch.uint8 \(37, 53, 3\)"):
        finish(frames()[0], Transform())
    with pytest.raises(ValueError, match=r"frames must be uint8 .*got torch.float32"):
        finish(frames().float(), Transform())
    with pytest.raises(ValueError, match=r"out must be torch.uint8 \(3, 3, 8, 8\).*got torch.uint8 \(3, 8, 8, 3\)"):
        finish(frames(), Transform(size=8), torch.empty((3, 8, 8, 3), dtype=torch.uint8))
    with pytest.raises(ValueError, match=r"out must be torch.float16 .*got torch.uint8"):
        finish(frames(), Transform(dtype=torch.float16), torch.empty((3, 3, 37, 53), dtype=torch.uint8))
