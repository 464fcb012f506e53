"""Transform: what it refuses, what sizes it gives, and that it travels between processes."""

from __future__ import annotations

import dataclasses
import pickle
from typing import Any

import pytest
import torch

from videodataset.convert import Transform

IMAGENET = {"mean": (0.485, 0.456, 0.406), "std": (0.229, 0.224, 0.225)}


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"size": 0}, r"size .*at least 1 pixel, got 0"),
        ({"size": (10, -1)}, r"size .*got \(10, -1\)"),
        ({"size": (1, 2, 3)}, r"size .*got \(1, 2, 3\)"),
        ({"size": (7,)}, r"write size=7"),
        ({"size": 2.5}, r"size .*got 2.5"),
        ({"size": True}, r"size .*got True"),
        ({"size": "224"}, r"size .*got '224'"),
        ({"size": 8, "resize": "fit"}, r"resize must be one of 'stretch', 'shorter', 'letterbox', got 'fit'"),
        ({"resize": "shorter"}, r"resize='shorter' needs a size.*Give size="),
        ({"resize": "letterbox"}, r"resize='letterbox' needs a size"),
        ({"interpolation": "nearest"}, r"interpolation must be one of 'bilinear', 'bicubic', got 'nearest'"),
        ({"crop": (0, 0, 5)}, r"crop must be four ints, .*got \(0, 0, 5\)"),
        ({"crop": (0, 0, 5, 0)}, r"crop .*width=0"),
        ({"crop": (-1, 0, 5, 5)}, r"crop .*top=-1"),
        ({"crop": (0.5, 0, 5, 5)}, r"crop must be four ints"),
        ({"dtype": torch.float64}, r"dtype must be one of torch.uint8, .*got torch.float64"),
        ({"dtype": "float32"}, r"dtype must be one of .*got 'float32'"),
        ({"mean": (0.5, 0.5, 0.5)}, r"mean needs a floating dtype, got torch.uint8. Add dtype="),
        ({"std": (0.5, 0.5, 0.5)}, r"std needs a floating dtype"),
        ({"mean": (0.5,), "dtype": torch.float32}, r"mean must be three"),
        ({"mean": 0.5, "dtype": torch.float32}, r"mean must be three numbers, for R, G and B, got 0.5"),
        ({"mean": (float("nan"), 0, 0), "dtype": torch.float32}, r"mean must be three finite"),
        ({"std": (0.5, 0.5, 0.0), "dtype": torch.float32}, r"std must be greater than 0"),
        ({"dimension_order": "CHW"}, r"dimension_order must be one of 'NCHW', 'NHWC', got 'CHW'"),
        ({"fill": 256}, r"fill .*0 to 255.*got 256"),
        ({"fill": 0.5}, r"fill .*got 0.5"),
        ({"fill": (1, 2)}, r"fill .*got \(1, 2\)"),
    ],
)
def test_refusals_name_value_and_limit(arguments: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        Transform(**arguments)


@pytest.mark.parametrize(
    ("arguments", "size", "want"),
    [
        ({}, (480, 640), (480, 640)),
        ({"size": 224}, (480, 640), (224, 224)),
        ({"size": (200, 300)}, (480, 640), (200, 300)),
        ({"size": 224, "resize": "shorter"}, (480, 640), (224, 298)),
        ({"size": 224, "resize": "shorter"}, (640, 480), (298, 224)),
        ({"size": 1000, "resize": "shorter"}, (48, 64), (1000, 1333)),
        ({"size": (224, 224), "resize": "shorter"}, (480, 640), (224, 224)),
        ({"size": 224, "resize": "letterbox"}, (480, 640), (224, 224)),
        ({"crop": (10, 20, 100, 200)}, (480, 640), (100, 200)),
        ({"crop": (10, 20, 100, 200), "size": 50, "resize": "shorter"}, (480, 640), (50, 100)),
    ],
)
def test_output_size(arguments: dict[str, Any], size: tuple[int, int], want: tuple[int, int]) -> None:
    assert Transform(**arguments).output_size(*size) == want


def test_output_size_refuses_a_crop_outside_the_frame() -> None:
    with pytest.raises(ValueError, match=r"crop \(top=400.*480 high and 640 wide"):
        Transform(crop=(400, 0, 100, 100)).output_size(480, 640)


@pytest.mark.parametrize("height", [1, 2, 3, 99, 100, 101, 480, 1080])
@pytest.mark.parametrize("width", [1, 2, 5, 149, 150, 151, 640, 1920])
def test_geometry(height: int, width: int) -> None:
    """The shape is kept within half a pixel (a whole one where it is rounded down), cut or filled evenly."""
    box = (100, 150)
    cover = Transform(size=box, resize="shorter").placement(height, width)
    fit = Transform(size=box, resize="letterbox").placement(height, width)
    larger = max(box[0] / height, box[1] / width)
    smaller = min(box[0] / height, box[1] / width)
    for resized, length, limit in zip(cover.resized, (height, width), box, strict=True):
        assert limit <= resized
        assert -1e-9 <= length * larger - resized < 1
    for resized, length, limit in zip(fit.resized, (height, width), box, strict=True):
        assert 1 <= resized <= limit
        assert resized == 1 or abs(length * smaller - resized) <= 0.5 + 1e-9
    for placement in (cover, fit):
        assert placement.output == box
        for first, resized, length in zip((placement.top, placement.left), placement.resized, box, strict=True):
            rest = length - resized - first
            assert abs(first - rest) <= 1


def test_lists_become_tuples_and_equal_transforms_are_one_key() -> None:
    listed = Transform(
        size=[4, 5],  # type: ignore[arg-type]
        crop=[0, 0, 8, 8],  # type: ignore[arg-type]
        fill=[1, 2, 3],  # type: ignore[arg-type]
        dtype=torch.bfloat16,
        mean=[0.1, 0.2, 0.3],
        std=torch.tensor([1.0, 2.0, 3.0]),  # type: ignore[arg-type]
    )
    same = Transform(
        size=(4, 5), crop=(0, 0, 8, 8), fill=(1, 2, 3), dtype=torch.bfloat16, mean=(0.1, 0.2, 0.3), std=(1.0, 2.0, 3.0)
    )
    assert listed == same
    assert {listed: 1}[same] == 1


def test_pickle_and_replace() -> None:
    transform = Transform(size=(224, 224), resize="letterbox", flip=True, dtype=torch.bfloat16, **IMAGENET)
    assert pickle.loads(pickle.dumps(transform)) == transform
    changed = dataclasses.replace(transform, flip=False, size=8)
    assert (changed.flip, changed.size, changed.mean) == (False, 8, IMAGENET["mean"])
    with pytest.raises(dataclasses.FrozenInstanceError):
        transform.flip = False  # type: ignore[misc]
