"""The same names, arguments and results as torchcodec, whose users change one import."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import Any

import pytest
import torch

import videodataset as vd
from clips import ClipStore

try:
    import torchcodec.decoders as torchcodec
except (ImportError, RuntimeError, OSError) as error:  # it raises RuntimeError where FFmpeg's libraries are missing
    pytest.skip(f"torchcodec cannot be imported: {error}".splitlines()[0], allow_module_level=True)

METHODS = [
    "__init__",
    "__len__",
    "__getitem__",
    "get_frame_at",
    "get_frames_at",
    "get_frames_in_range",
    "get_frame_played_at",
    "get_frames_played_at",
    "get_frames_played_in_range",
    "get_all_frames",
]
# 8-bit 4:2:0 of even size: what torchcodec converts as swscale's fast path does.
ORDINARY = [
    "h264", "h264_open_gop", "h264_15b", "h264_one_gop", "h264_intra", "h264_g2", "h264_slices", "hevc",
    "hevc_closed_15b", "hevc_pyramid", "hevc_layers", "av1_g2", "av1_hierarchical", "vp8", "vp9", "mpeg4_b",
    "h264_mov", "h264_faststart", "h264_fragmented", "h264_mkv", "hevc_mkv", "audio_first", "vfr", "time_base_90k",
    "time_base_1m", "start_10s", "gap", "h264_bt709", "h264_bt601", "h264_full", "h264_422", "h264_cropped",
    "hevc_cropped", "rotate_90", "rotate_180", "rotate_270", "h264_intra_refresh",
]  # fmt: skip


# torchcodec takes a frame's duration as its FFmpeg decodes it, and FFmpeg 5 knows none for these.
NO_DURATION = {"vfr", "gap", "time_base_90k", "time_base_1m"}


def decoders(path: Any, **options: Any) -> tuple[vd.VideoDecoder, torchcodec.VideoDecoder]:
    return vd.VideoDecoder(path, device="cpu", **options), torchcodec.VideoDecoder(str(path), device="cpu", **options)


def assert_same(ours: Any, theirs: Any, durations: bool = True) -> None:
    """Assert that two frames or batches are the same, bit for bit."""
    assert torch.equal(ours.data, theirs.data)
    assert torch.allclose(torch.as_tensor(ours.pts_seconds), torch.as_tensor(theirs.pts_seconds), rtol=0, atol=1e-9)
    assert not durations or torch.allclose(
        torch.as_tensor(ours.duration_seconds), torch.as_tensor(theirs.duration_seconds), rtol=0, atol=1e-9
    )


@pytest.mark.parametrize("method", METHODS)
def test_signature(method: str) -> None:
    def parameters(owner: type) -> list[tuple[str, Any, Any]]:
        found = inspect.signature(getattr(owner, method)).parameters.values()
        return [(each.name, each.kind, each.default) for each in found]

    assert parameters(vd.VideoDecoder) == parameters(torchcodec.VideoDecoder)


def test_every_public_name_is_here() -> None:
    missing = {name for name in dir(torchcodec.VideoDecoder) if not name.startswith("_")} - set(dir(vd.VideoDecoder))
    # Set in our __init__, a property there.
    assert missing <= {"cpu_fallback"}


def test_metadata(clip: ClipStore) -> None:
    ours, theirs = (video.metadata for video in decoders(clip("h264")))
    names = [name for name in dir(theirs) if not name.startswith("_") and not callable(getattr(theirs, name))]
    different = {}
    for name in names:
        assert hasattr(ours, name), name
        got, want = getattr(ours, name), getattr(theirs, name)
        if name == "pixel_aspect_ratio" and want == 0:
            want = None  # FFmpeg's 0/1 is "not said"
        if isinstance(want, float) and got is not None:
            want = pytest.approx(want, rel=1e-6)
        if got != want:
            different[name] = (got, want)
    assert different == {}


@pytest.mark.parametrize("name", ORDINARY)
def test_frames(name: str, clip: ClipStore) -> None:
    ours, theirs = decoders(clip(name))
    assert len(ours) == len(theirs)
    assert_same(
        ours.get_frames_at(list(range(len(ours)))),
        theirs.get_frames_at(list(range(len(theirs)))),
        name not in NO_DURATION,
    )


@pytest.mark.parametrize("name", ["h264", "hevc", "start_10s", "h264_mkv"])
@pytest.mark.parametrize(
    "ask",
    [
        lambda video: video.get_frame_at(3),
        lambda video: video.get_frame_at(-3),
        lambda video: video.get_frames_at([9, -1, 3, 3]),
        lambda video: video.get_frames_in_range(3, 20, 4),
        lambda video: video.get_frames_in_range(-4, 1000),
        lambda video: video.get_frame_played_at(_at(video, 0.31)),
        lambda video: video.get_frames_played_at([_at(video, 0.9), _at(video, 0.0), _at(video, 0.555)]),
        lambda video: video.get_frames_played_in_range(_at(video, 0.2), _at(video, 0.55)),
        lambda video: video.get_frames_played_in_range(_at(video, 0.2), _at(video, 0.7), fps=7.0),
        lambda video: video.get_frames_played_in_range(_at(video, 0.2), _at(video, 0.7), fps=60.0),
        lambda video: video.get_all_frames(),
        lambda video: video.get_all_frames(fps=10.0),
        lambda video: video.get_all_frames(fps=29.97),
    ],
)
def test_methods(name: str, ask: Callable[[Any], Any], clip: ClipStore) -> None:
    ours, theirs = decoders(clip(name))
    assert_same(ask(ours), ask(theirs))


def _at(video: Any, fraction: float) -> float:
    begin, end = video.metadata.begin_stream_seconds, video.metadata.end_stream_seconds
    return float(begin + fraction * (end - begin))


@pytest.mark.parametrize("key", [0, -1, slice(2, 9), slice(None, None, 5), slice(-3, None)])
def test_brackets(key: int | slice, clip: ClipStore) -> None:
    ours, theirs = decoders(clip("h264"))
    assert torch.equal(ours[key], theirs[key])


def test_nhwc(clip: ClipStore) -> None:
    ours, theirs = decoders(clip("h264"), dimension_order="NHWC")
    assert torch.equal(ours[3:6], theirs[3:6])
    assert_same(ours.get_frames_at([5, 2]), theirs.get_frames_at([5, 2]))


@pytest.mark.parametrize(
    "ask",
    [
        lambda video: video[1000],
        lambda video: video[-1000],
        lambda video: video.get_frame_played_at(-1.0),
        lambda video: video.get_frame_played_at(video.metadata.end_stream_seconds),
        lambda video: video.get_frames_played_in_range(1.0, 0.5),
        lambda video: video.get_frames_played_in_range(-1.0, 0.5),
        lambda video: video.get_frames_played_in_range(0.0, 1000.0),
        lambda video: video["x"],
    ],
)
def test_errors_are_caught_as_before(ask: Callable[[Any], Any], clip: ClipStore) -> None:
    """What torchcodec raises as one of Python's own errors, we raise as the same one."""
    ours, theirs = decoders(clip("h264"))
    with pytest.raises((IndexError, ValueError, TypeError)) as theirs_raised:
        ask(theirs)
    with pytest.raises(theirs_raised.type):
        ask(ours)
