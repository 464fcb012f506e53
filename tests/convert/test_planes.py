"""Outputs "yuv" and "gray16": the samples that were decoded, turned and cropped, never converted."""

from __future__ import annotations

from typing import Any

import av
import numpy as np
import pytest
import torch
from pictures import FULL, ORIENTATIONS, frame_of, planes_and_frame, stream

from reference import LAYOUTS
from videodataset.convert import to_gray16, to_yuv
from videodataset.errors import UnsupportedVideoError
from videodataset.index import Orientation

YUV = [name for name in LAYOUTS if name.startswith("yuv")]


def full_size(planes: list[np.ndarray], pix_fmt: str) -> np.ndarray:
    """Chroma repeated; (3, H, W)."""
    shift_x, shift_y, _ = LAYOUTS[pix_fmt]
    height, width = planes[0].shape
    chroma = [p.repeat(1 << shift_y, 0).repeat(1 << shift_x, 1)[:height, :width] for p in planes[1:]]
    return np.stack([planes[0], *chroma])


def turned(picture: np.ndarray, orientation: Orientation) -> np.ndarray:
    """(C, H, W) as displayed."""
    if orientation.transpose:
        picture = picture.swapaxes(1, 2)
    return picture[:, :: -1 if orientation.flip_y else 1, :: -1 if orientation.flip_x else 1]


@pytest.mark.parametrize("size", [(64, 48), (65, 49), (1, 1)])
@pytest.mark.parametrize("pix_fmt", YUV)
def test_yuv(pix_fmt: str, size: tuple[int, int]) -> None:
    planes, frame = planes_and_frame(pix_fmt, *size, color_range=FULL)
    got = to_yuv(frame, stream(), "a video")
    assert got.dtype == (np.uint8 if LAYOUTS[pix_fmt][2] == 8 else np.uint16)
    assert np.array_equal(got, full_size(planes, pix_fmt))


@pytest.mark.parametrize("size", [(64, 48), (65, 49), (1, 1)])
@pytest.mark.parametrize("pix_fmt", [*LAYOUTS, "gray16le"])
def test_gray16(pix_fmt: str, size: tuple[int, int], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(LAYOUTS, "gray16le", (0, 0, 16))
    planes, frame = planes_and_frame(pix_fmt, *size)
    got = to_gray16(frame, stream(), "a video")
    assert got.dtype == np.uint16
    assert np.array_equal(got, planes[0][None])
    assert torch.from_numpy(got).dtype == torch.uint16


@pytest.mark.parametrize("orientation", ORIENTATIONS)
@pytest.mark.parametrize("pix_fmt", ["yuv420p", "yuv422p12le"])
def test_turned_and_cropped(pix_fmt: str, orientation: Orientation) -> None:
    planes, frame = planes_and_frame(pix_fmt, 65, 49)
    info = stream(orientation=orientation)
    whole = turned(full_size(planes, pix_fmt), orientation)
    assert np.array_equal(to_yuv(frame, info, "a video"), whole)
    for top, left in ((0, 0), (3, 4), (8, 5), (11, 13)):
        crop = (top, left, 21, 33)
        want = whole[:, top : top + 21, left : left + 33]
        out = np.empty((3, 21, 33), whole.dtype)
        assert np.array_equal(to_yuv(frame, info, "a video", crop=crop), want)
        assert to_yuv(frame, info, "a video", out=out, crop=crop) is out
        assert np.array_equal(out, want)
        assert np.array_equal(to_gray16(frame, info, "a video", crop=crop), want[:1])


@pytest.mark.parametrize("pix_fmt", ["gbrp", "rgb24", "gray", "yuyv422", "yuv444p10msble", "yuv420p10be"])
def test_yuv_of_other_formats_is_refused_by_name(pix_fmt: str) -> None:
    frame = av.VideoFrame(16, 16, pix_fmt)
    with pytest.raises(UnsupportedVideoError, match=rf"a video: pixel format {pix_fmt} .*output='rgb'"):
        to_yuv(frame, stream(), "a video")


@pytest.mark.parametrize("pix_fmt", ["gbrp", "rgb24", "ya8", "pal8", "grayf32le", "gray16be"])
def test_gray16_of_other_formats_is_refused_by_name(pix_fmt: str) -> None:
    frame = av.VideoFrame(16, 16, pix_fmt)
    with pytest.raises(UnsupportedVideoError, match=rf"a video: pixel format {pix_fmt} .*gray12le"):
        to_gray16(frame, stream(), "a video")


@pytest.mark.parametrize("give", [to_yuv, to_gray16])
def test_wrong_out_is_named(give: Any) -> None:
    frame = frame_of([np.zeros((8, 8), np.uint8)] * 3, "yuv444p")
    with pytest.raises(ValueError, match=r"a video: out must be uint\d+ \(\d, 8, 8\), got float32 \(8, 8\)"):
        give(frame, stream(), "a video", out=np.zeros((8, 8), np.float32))
    with pytest.raises(ValueError, match="crop"):
        give(frame, stream(), "a video", crop=(0, 0, 9, 1))
