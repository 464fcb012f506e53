"""Resize against torchvision: bilinear within 1 of its result for uint8, bicubic within 1 of that for float32."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch

import torchvision_functional
from videodataset.convert.resize import resize

SIZES = [
    ((48, 64), (24, 32)),
    ((48, 64), (31, 17)),
    ((49, 65), (112, 97)),
    ((33, 47), (33, 20)),
    ((120, 90), (7, 5)),
    ((5, 3), (64, 64)),
    ((1, 1), (4, 6)),
    ((40, 1), (13, 2)),
    ((40, 30), (1, 9)),
    ((480, 640), (224, 224)),
]


@pytest.fixture(scope="module")
def functional() -> Any:
    loaded = torchvision_functional.load()
    return loaded or pytest.skip("torchvision is not installed")


def pictures(height: int, width: int) -> dict[str, torch.Tensor]:
    """Noise, a smooth picture, and edges from black to white: all (H, W, 3)."""
    y, x = np.mgrid[:height, :width]
    smooth = np.stack([127.5 + 127 * np.sin((x + y * k) / 9) for k in (1, 2, 3)], axis=-1)
    return {
        "noise": torch.from_numpy(np.random.default_rng(0).integers(0, 256, (height, width, 3), np.uint8)),
        "smooth": torch.from_numpy(smooth.astype(np.uint8)),
        "edges": torch.from_numpy(np.repeat(((x // 5 + y // 7) % 2 * 255).astype(np.uint8)[..., None], 3, axis=2)),
    }


def torchvision_resize(functional: Any, frame: torch.Tensor, size: tuple[int, int], mode: str) -> torch.Tensor:
    """By torchvision, from NCHW memory; (h, w, 3)."""
    mode = functional.InterpolationMode(mode)
    planes = frame.permute(2, 0, 1).contiguous()
    return functional.resize(planes, list(size), interpolation=mode, antialias=True).permute(1, 2, 0)


@pytest.mark.parametrize(("source", "size"), SIZES)
def test_bilinear(functional: Any, source: tuple[int, int], size: tuple[int, int]) -> None:
    for name, frame in pictures(*source).items():
        got = resize(frame, size)
        want = torchvision_resize(functional, frame, size, "bilinear")
        assert got.dtype == torch.uint8
        assert got.shape == (*size, 3)
        assert (got.int() - want.int()).abs().max() <= 1, name


@pytest.mark.parametrize(("source", "size"), SIZES)
def test_bicubic(functional: Any, source: tuple[int, int], size: tuple[int, int]) -> None:
    for name, frame in pictures(*source).items():
        got = resize(frame, size, "bicubic")
        want = torchvision_resize(functional, frame.float(), size, "bicubic").clamp(0, 255)
        assert got.dtype == torch.uint8
        assert got.shape == (*size, 3)
        assert (got - want).abs().max() <= 1, name


@pytest.mark.parametrize("interpolation", ["bilinear", "bicubic"])
def test_a_crop_is_resized_as_if_nothing_lay_around_it(functional: Any, interpolation: Any) -> None:
    frame = pictures(97, 131)["noise"]
    view = frame[11:72, 3:128]
    got = resize(view, (40, 50), interpolation)
    assert torch.equal(got, resize(view.clone(), (40, 50), interpolation))
    reference = view.clone().float() if interpolation == "bicubic" else view.clone()
    want = torchvision_resize(functional, reference, (40, 50), interpolation).clamp(0, 255)
    assert (got.float() - want.float()).abs().max() <= 1


def test_the_same_size_is_left_alone() -> None:
    frame = pictures(8, 9)["noise"]
    assert resize(frame, (8, 9)) is frame
    assert resize(frame, (8, 9), "bicubic") is frame


@pytest.mark.parametrize("source", [(64, 64), (2, 3), (9, 1), (1, 9)])
@pytest.mark.parametrize("size", [(1, 1), (3, 1), (30, 1)])
def test_one_pixel_wide(functional: Any, source: tuple[int, int], size: tuple[int, int]) -> None:
    """Where torch's kernel for 8 bits, and so torchvision's result for uint8, is wrong."""
    for name, frame in pictures(*source).items():
        want = torchvision_resize(functional, frame.float(), size, "bilinear")
        assert (resize(frame, size) - want).abs().max() <= 0.51, name


@pytest.mark.parametrize("interpolation", ["bilinear", "bicubic"])
@pytest.mark.parametrize("code", [0, 1, 128, 255])
def test_a_flat_picture_stays_flat(interpolation: Any, code: int) -> None:
    frame = torch.full((31, 45, 3), code, dtype=torch.uint8)
    for size in ((13, 17), (77, 91)):
        assert (resize(frame, size, interpolation) == code).all()
