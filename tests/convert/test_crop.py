"""A crop has the pixels that the whole picture has there, at every parity, format and orientation."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
from pictures import ORIENTATIONS, planes_and_frame, stream

from reference import LAYOUTS
from videodataset.convert import to_rgb
from videodataset.index import Orientation


@pytest.mark.parametrize("size", [(100, 38), (67, 35)])
@pytest.mark.parametrize("pix_fmt", LAYOUTS)
def test_every_parity(pix_fmt: str, size: tuple[int, int]) -> None:
    _, frame = planes_and_frame(pix_fmt, *size)
    whole = to_rgb(frame, stream(), "a video")
    for top, left, height, width in itertools.product((0, 5, 8), (0, 31, 34), (1, 24, 27), (1, 32, 33)):
        got = to_rgb(frame, stream(), "a video", crop=(top, left, height, width))
        assert np.array_equal(got, whole[top : top + height, left : left + width]), (top, left, height, width)


@pytest.mark.parametrize("pix_fmt", ["yuv420p", "yuv422p", "yuv420p10le"])
def test_random_crops_of_a_wide_picture(pix_fmt: str) -> None:
    """As wide as real video, where the vector code does many groups of pixels in a row."""
    width, height = 642, 130
    _, frame = planes_and_frame(pix_fmt, width, height)
    whole = to_rgb(frame, stream(), "a video")
    rng = np.random.default_rng(1)
    for _ in range(60):
        rows, columns = (int(v) for v in rng.integers(1, (height + 1, width + 1)))
        top, left = int(rng.integers(0, height - rows + 1)), int(rng.integers(0, width - columns + 1))
        got = to_rgb(frame, stream(), "a video", crop=(top, left, rows, columns))
        assert np.array_equal(got, whole[top : top + rows, left : left + columns]), (top, left, rows, columns)


@pytest.mark.parametrize("orientation", ORIENTATIONS)
@pytest.mark.parametrize("pix_fmt", ["yuv420p", "yuv444p12le"])
def test_crops_are_in_displayed_coordinates(pix_fmt: str, orientation: Orientation) -> None:
    _, frame = planes_and_frame(pix_fmt, 70, 50)
    info = stream(orientation=orientation)
    whole = to_rgb(frame, info, "a video")
    out = np.empty((21, 33, 3), np.uint8)
    for got in (
        to_rgb(frame, info, "a video", crop=(7, 12, 21, 33)),
        to_rgb(frame, info, "a video", out=out, crop=(7, 12, 21, 33)),
    ):
        assert np.array_equal(got, whole[7:28, 12:45])


def test_nothing_outside_the_crop_matters() -> None:
    """Other samples outside, beyond the chroma samples that the crop shares, give the same pixels."""
    planes, frame = planes_and_frame("yuv420p", 128, 96)
    others, other = planes_and_frame("yuv420p", 128, 96, seed=1)
    for samples, changed in zip(planes, others, strict=True):
        scale = 96 // samples.shape[0]
        changed[20 // scale : 60 // scale, 40 // scale : 80 // scale] = samples[
            20 // scale : 60 // scale, 40 // scale : 80 // scale
        ]
    for plane, changed in zip(other.planes, others, strict=True):
        rows = np.zeros((plane.height, plane.line_size), np.uint8)
        rows[:, : changed.shape[1]] = changed
        plane.update(rows.tobytes())
    crop = (20, 40, 40, 40)
    assert np.array_equal(to_rgb(frame, stream(), "a video", crop=crop), to_rgb(other, stream(), "a video", crop=crop))


@pytest.mark.parametrize(
    "crop", [(-1, 0, 2, 2), (0, -1, 2, 2), (0, 0, 0, 2), (0, 0, 2, 0), (40, 0, 11, 2), (0, 60, 2, 11)]
)
def test_outside_is_refused_with_both_sizes(crop: tuple[int, int, int, int]) -> None:
    _, frame = planes_and_frame("yuv420p", 70, 50)
    with pytest.raises(ValueError, match=rf"a video: crop \(top={crop[0]}.*50 high and 70 wide"):
        to_rgb(frame, stream(), "a video", crop=crop)
