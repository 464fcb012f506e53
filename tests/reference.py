"""Expected values: a full decode by PyAV, in order, and the conversion formula in float64; never the library."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any

import av
import numpy as np
import torch
from numpy.typing import NDArray

from clips.catalogue import CLIPS, Clip

Array = NDArray[Any]

#: Pixel format -> (log2 of chroma subsampling across, down, bits per sample)
LAYOUTS = {
    "yuv420p": (1, 1, 8),
    "yuvj420p": (1, 1, 8),
    "yuv422p": (1, 0, 8),
    "yuvj422p": (1, 0, 8),
    "yuv444p": (0, 0, 8),
    "yuvj444p": (0, 0, 8),
    "yuv420p10le": (1, 1, 10),
    "yuv422p10le": (1, 0, 10),
    "yuv444p10le": (0, 0, 10),
    "yuv420p12le": (1, 1, 12),
    "yuv422p12le": (1, 0, 12),
    "yuv444p12le": (0, 0, 12),
    "gray": (0, 0, 8),
    "gray12le": (0, 0, 12),
}
#: FFmpeg's AVColorSpace -> (Kr, Kb); not tagged is BT.601
COEFFICIENTS = {1: (0.2126, 0.0722), 2: (0.299, 0.114), 5: (0.299, 0.114), 6: (0.299, 0.114), 9: (0.2627, 0.0593)}
FULL_RANGE = 2
#: swscale repeats chroma for these, as the formula does; it interpolates for the others.
FAST_PATH = {"yuv420p", "yuvj420p", "yuv422p", "yuvj422p"}


@dataclass(frozen=True)
class Shown:
    """One shown frame as displayed: RGB by the formula (float64, HWC), and by swscale (uint8, HWC)."""

    exact: Array
    swscale: Array
    pts_seconds: float | None
    fast_path: bool  # swscale's own RGB is what the CPU gives, bit for bit
    tolerance: int  # codes off the formula that the CPU may be
    gpu_tolerance: int  # likewise


def formula(planes: list[Array], pix_fmt: str, colorspace: int, color_range: int) -> Array:
    """YCbCr planes to (H, W, 3) float64 RGB in 0..255, clamped, not rounded; chroma is repeated."""
    shift_x, shift_y, depth = LAYOUTS[pix_fmt]
    full = color_range == FULL_RANGE or pix_fmt.startswith("yuvj")
    one = 2.0 ** (depth - 8)
    samples = [plane.astype(np.float64) for plane in planes]
    height, width = samples[0].shape
    luma = samples[0] / (2**depth - 1) if full else (samples[0] - 16 * one) / (219 * one)
    if pix_fmt.startswith("gray"):
        return 255 * np.clip(np.stack([luma] * 3, axis=-1), 0, 1)
    scale = 2**depth - 1 if full else 224 * one
    blue, red = (
        (np.repeat(np.repeat(plane, 1 << shift_y, axis=0), 1 << shift_x, axis=1)[:height, :width] - 128 * one) / scale
        for plane in samples[1:3]
    )
    kr, kb = COEFFICIENTS[colorspace]
    r = luma + 2 * (1 - kr) * red
    b = luma + 2 * (1 - kb) * blue
    g = (luma - kr * r - kb * b) / (1 - kr - kb)
    return 255 * np.clip(np.stack([r, g, b], axis=-1), 0, 1)


def planes_of(frame: Any) -> list[Array]:
    """The samples FFmpeg decoded, without padding."""
    shift_x, shift_y, depth = LAYOUTS[frame.format.name]
    dtype = np.dtype(np.uint8) if depth == 8 else np.dtype("<u2")
    planes = []
    for k, plane in enumerate(frame.planes):
        width = -(-frame.width >> shift_x) if k else frame.width
        height = -(-frame.height >> shift_y) if k else frame.height
        rows = np.frombuffer(plane, np.uint8).reshape(-1, plane.line_size)[:height]
        planes.append(np.ascontiguousarray(rows[:, : width * dtype.itemsize]).view(dtype))
    return planes


def as_displayed(picture: Array, recipe: Clip) -> Array:
    """Turn a decoded (H, W, 3) picture as the recipe's display matrix says."""
    if recipe.mirror:
        picture = picture[:, ::-1]
    return np.ascontiguousarray(np.rot90(picture, -(recipe.rotation // 90)))


def shown_frame(frame: Any, recipe: Clip) -> Shown:
    """Expected values of one decoded frame."""
    name = frame.format.name
    # swscale splits the fields of an interlaced frame, and interpolates chroma of odd heights.
    even = frame.width % 2 == 0 and frame.height % 2 == 0
    fast_path = name in FAST_PATH and even and not frame.interlaced_frame
    exact = formula(planes_of(frame), name, frame.colorspace, frame.color_range)
    return Shown(
        exact=as_displayed(exact, recipe),
        swscale=as_displayed(frame.to_ndarray(format="rgb24"), recipe),
        pts_seconds=None if frame.pts is None else float(frame.pts * frame.time_base),
        fast_path=fast_path,
        tolerance=3 if name in FAST_PATH else 1,
        # MPEG-2 and MPEG-4 leave the rounding of the inverse transform open (IEEE 1180), and it adds up in prediction.
        gpu_tolerance=16 if recipe.codec in ("mpeg2video", "mpeg4") else 1,
    )


@lru_cache(maxsize=4)
def decode_all(path: Path, recipe: Clip, stream_index: int | None = None) -> list[Shown]:
    """Decode every frame of the file in order, in one thread."""
    with av.open(str(path)) as container:
        video = container.streams.video[0] if stream_index is None else container.streams[stream_index]
        video.thread_type = "NONE"
        video.codec_context.thread_count = 1
        video.codec_context.options = {"strict": "1"}
        return [shown_frame(frame, recipe) for frame in container.decode(video)]


class Reference:
    """Call with a clip's name to get its shown frames."""

    def __init__(self, find: Callable[[str], Path]) -> None:
        self._find = find

    def __call__(self, name: str, stream_index: int | None = None) -> list[Shown]:
        return decode_all(self._find(name), CLIPS[name], stream_index)


def assert_picture(got_chw: torch.Tensor, want: Shown) -> None:
    """Assert that a (3, H, W) uint8 picture is `want`, within what the design allows."""
    assert got_chw.dtype == torch.uint8
    got = got_chw.cpu().numpy().transpose(1, 2, 0)
    assert got.shape == want.exact.shape
    error = np.abs(got - want.exact)
    tolerance = want.tolerance if got_chw.device.type == "cpu" else want.gpu_tolerance
    # swscale truncates; its mean error alone reaches 1.03 on some of these clips.
    assert error.max() <= tolerance, f"off the formula by {error.max():.2f} (mean {error.mean():.3f})"
    assert error.mean() < 1.1, f"off the formula by {error.mean():.3f} in the mean"
    if want.fast_path and got_chw.device.type == "cpu":
        difference = np.abs(got.astype(int) - want.swscale).max()
        assert difference == 0, f"differs from PyAV's rgb24 by up to {difference}"
