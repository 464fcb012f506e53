"""YUV to RGB against the formula, on made-up samples of every format, matrix and range."""

from __future__ import annotations

from typing import Any

import av
import numpy as np
import pytest
from pictures import (
    BT601,
    BT709,
    BT2020,
    FULL,
    LIMITED,
    UNKNOWN_RANGE,
    UNTAGGED,
    chroma_edges,
    frame_of,
    planes_and_frame,
    stream,
)

from reference import FAST_PATH, LAYOUTS, formula
from videodataset.convert import to_rgb
from videodataset.errors import UnsupportedVideoError
from videodataset.index import Orientation


@pytest.mark.parametrize("color_range", [UNKNOWN_RANGE, LIMITED, FULL])
@pytest.mark.parametrize("colorspace", [UNTAGGED, BT601, BT709, BT2020])
@pytest.mark.parametrize("pix_fmt", LAYOUTS)
def test_formula(pix_fmt: str, colorspace: int, color_range: int) -> None:
    planes, frame = planes_and_frame(pix_fmt, 64, 48, colorspace, color_range)
    got = to_rgb(frame, stream(), "a video")
    error = np.abs(got - formula(planes, pix_fmt, colorspace, color_range))
    assert got.shape == (48, 64, 3)
    assert got.dtype == np.uint8
    if pix_fmt in FAST_PATH:
        assert error.max() <= 3
        assert error.mean() < 1
    else:
        assert error.max() <= 1


@pytest.mark.parametrize("size", [(65, 48), (64, 49), (65, 49), (1, 1), (17, 2), (130, 98)])
@pytest.mark.parametrize("pix_fmt", LAYOUTS)
def test_sizes(pix_fmt: str, size: tuple[int, int]) -> None:
    """Odd sizes have (n + 1) / 2 chroma samples, and none is read or written outside."""
    planes, frame = planes_and_frame(pix_fmt, *size)
    got = to_rgb(frame, stream(), "a video")
    error = np.abs(got - formula(planes, pix_fmt, UNTAGGED, UNKNOWN_RANGE))
    assert got.shape == (size[1], size[0], 3)
    assert error.max() <= (3 if pix_fmt in FAST_PATH else 1)


@pytest.mark.parametrize("size", [(64, 48), (65, 49), (66, 50)])
@pytest.mark.parametrize("color_range", [UNKNOWN_RANGE, FULL])
@pytest.mark.parametrize("colorspace", [UNTAGGED, BT601, BT709, BT2020])
@pytest.mark.parametrize("pix_fmt", LAYOUTS)
def test_chroma_edges(pix_fmt: str, colorspace: int, color_range: int, size: tuple[int, int]) -> None:
    """Chroma is repeated: where it jumps, no colour lies between the two sides."""
    planes = chroma_edges(pix_fmt, *size)
    got = to_rgb(frame_of(planes, pix_fmt, colorspace, color_range), stream(), "a video")
    error = np.abs(got - formula(planes, pix_fmt, colorspace, color_range))
    if pix_fmt in FAST_PATH and size[1] % 2 == 0:
        assert error.max() <= 3
        assert error.mean() < 1
    else:
        assert error.max() <= 1


@pytest.mark.parametrize("pix_fmt", sorted(FAST_PATH))
@pytest.mark.parametrize("colorspace", [UNTAGGED, BT601, BT709])
def test_fast_path_is_what_pyav_gives(pix_fmt: str, colorspace: int) -> None:
    _, frame = planes_and_frame(pix_fmt, 128, 96, colorspace)
    assert np.array_equal(to_rgb(frame, stream(), "a video"), frame.to_ndarray(format="rgb24"))


def test_rounded_not_cut() -> None:
    """4:4:4 is within half a code of the exact value nearly everywhere, as rounding gives and cutting does not."""
    planes, frame = planes_and_frame("yuv444p", 128, 96)
    error = np.abs(to_rgb(frame, stream(), "a video") - formula(planes, "yuv444p", UNTAGGED, UNKNOWN_RANGE))
    assert error.max() <= 0.51


@pytest.mark.parametrize(("luma", "gray"), [(16, 0), (235, 255), (126, 128), (0, 0), (255, 255)])
@pytest.mark.parametrize("pix_fmt", ["yuv420p", "yuv444p", "gray"])
def test_known_grays(pix_fmt: str, luma: int, gray: int) -> None:
    frame = av.VideoFrame(16, 16, pix_fmt)
    for k, plane in enumerate(frame.planes):
        plane.update(bytes([128 if k else luma]) * plane.buffer_size)
    got = to_rgb(frame, stream(), "a video").astype(int)
    assert np.abs(got - gray).max() <= (1 if pix_fmt == "yuv420p" else 0)


@pytest.mark.parametrize(
    ("ycbcr", "rgb"), [((81, 90, 240), (255, 0, 0)), ((145, 54, 34), (0, 255, 0)), ((41, 240, 110), (0, 0, 255))]
)
@pytest.mark.parametrize("pix_fmt", ["yuv420p", "yuv444p"])
def test_bt601_colour_bars(pix_fmt: str, ycbcr: tuple[int, ...], rgb: tuple[int, ...]) -> None:
    """Codes of BT.601's red, green and blue."""
    frame = av.VideoFrame(16, 16, pix_fmt)
    for plane, code in zip(frame.planes, ycbcr, strict=True):
        plane.update(bytes([code]) * plane.buffer_size)
    assert np.abs(to_rgb(frame, stream(), "a video").astype(int) - rgb).max() <= 3


def test_tags_of_the_stream_serve_where_the_picture_has_none() -> None:
    planes, frame = planes_and_frame("yuv444p", 64, 48)
    got = to_rgb(frame, stream(color_matrix=BT709, color_range=FULL), "a video")
    assert np.abs(got - formula(planes, "yuv444p", BT709, FULL)).max() <= 1


@pytest.mark.parametrize(
    ("orientation", "turn"),
    [
        (Orientation(), lambda a: a),
        (Orientation(flip_x=True), lambda a: a[:, ::-1]),
        (Orientation(flip_y=True), lambda a: a[::-1]),
        (Orientation(transpose=True), lambda a: a.swapaxes(0, 1)),
        (Orientation(transpose=True, flip_x=True), lambda a: np.rot90(a, -1)),
        (Orientation(transpose=True, flip_y=True), lambda a: np.rot90(a, 1)),
        (Orientation(flip_x=True, flip_y=True), lambda a: np.rot90(a, 2)),
    ],
)
@pytest.mark.parametrize("pix_fmt", ["yuv420p", "yuv420p10le"])
def test_orientation(orientation: Orientation, turn: Any, pix_fmt: str) -> None:
    _, frame = planes_and_frame(pix_fmt, 64, 48)
    upright = to_rgb(frame, stream(), "a video")
    want = turn(upright)
    out = np.zeros(want.shape, np.uint8)
    for got in (
        to_rgb(frame, stream(orientation=orientation), "a video"),
        to_rgb(frame, stream(orientation=orientation), "a video", out=out),
    ):
        assert np.array_equal(got, want)


@pytest.mark.parametrize("orientation", [Orientation(), Orientation(transpose=True)])
@pytest.mark.parametrize("pix_fmt", ["yuv420p", "yuv444p"])
def test_out_may_have_any_strides_but_no_other_shape(pix_fmt: str, orientation: Orientation) -> None:
    _, frame = planes_and_frame(pix_fmt, 64, 48)
    info = stream(orientation=orientation)
    want = to_rgb(frame, info, "a video")
    height, width, _ = want.shape
    for out in (
        np.zeros((3, height, width), np.uint8).transpose(1, 2, 0),
        np.zeros((height, width + 9, 4), np.uint8)[:, 5:-4, :3],
        np.zeros((height, width + 9, 3), np.uint8)[:, 5:-4],
    ):
        assert to_rgb(frame, info, "a video", out=out) is out
        assert np.array_equal(out, want)
        out[:] = 0
        assert not out.base.any(), "written outside"
    for wrong in (np.zeros((height, width - 1, 3), np.uint8), np.zeros((height, width, 3), np.int8)):
        with pytest.raises(ValueError, match=rf"a video: out must be uint8 \({height}, {width}, 3\), got"):
            to_rgb(frame, info, "a video", out=wrong)


def test_unknown_matrix_is_refused_by_name() -> None:
    _, frame = planes_and_frame("yuv444p", 16, 16, colorspace=14)
    with pytest.raises(UnsupportedVideoError, match=r"a video.*14"):
        to_rgb(frame, stream(), "a video")
