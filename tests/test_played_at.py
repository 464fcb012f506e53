"""Access by time: which frame is on screen, and when."""

from __future__ import annotations

import math
import random
from itertools import pairwise

import numpy as np
import pytest
import torch

import videodataset as vd
from clips import CLIPS, ClipStore, read_number
from reference import Reference
from videodataset import VideoDecoder

TIMED = [
    "h264", "hevc", "vp8_hidden", "vfr", "vfr_mkv", "gap", "start_10s", "time_base_1m", "time_base_90k",
    "h264_ts", "edit_list", "h264_cut", "h264_fragmented",
]  # fmt: skip


def numbers(frames: torch.Tensor) -> list[int | None]:
    return [read_number(frame) for frame in frames]


@pytest.fixture
def video(clip: ClipStore, device: str) -> VideoDecoder:
    """48 frames, 25 per second from 0 s."""
    return VideoDecoder(clip("h264"), device=device)


@pytest.mark.parametrize("name", TIMED)
def test_at_and_between(name: str, clip: ClipStore, reference: Reference, device: str) -> None:
    """A frame is on screen from its own time until just before the next one's."""
    times = [frame.pts_seconds for frame in reference(name)]
    asks: list[tuple[float, int]] = []
    for k, (start, stop) in enumerate(pairwise(times)):
        asks += [(start, k), ((start + stop) / 2, k), (stop - (stop - start) / 100, k)]
    asks.append((times[-1], len(times) - 1))
    random.Random(name).shuffle(asks)
    video = VideoDecoder(clip(name), device=device)
    batch = video.get_frames_played_at([seconds for seconds, _ in asks])
    shown = CLIPS[name].numbers
    assert numbers(batch.data) == [shown[k] for _, k in asks]
    assert batch.pts_seconds.tolist() == pytest.approx([times[k] for _, k in asks], abs=1e-9)
    for seconds, k in asks[:10]:
        frame = video.get_frame_played_at(seconds)
        assert read_number(frame.data) == shown[k]
        assert frame.pts_seconds == pytest.approx(times[k], abs=1e-9)


@pytest.mark.parametrize("name", TIMED)
def test_own_times_find_the_same_frames(name: str, clip: ClipStore) -> None:
    """What a batch says of its times leads back to the same frames."""
    video = VideoDecoder(clip(name), device="cpu")
    times = video.get_frames_at(range(len(video))).pts_seconds
    assert numbers(video.get_frames_played_at(times).data) == CLIPS[name].numbers


@pytest.mark.parametrize("name", ["h264", "start_10s", "h264_ts", "edit_list"])
@pytest.mark.parametrize("off", [-1000.0, -0.001, "end", 1000.0, math.nan, math.inf, -math.inf])
def test_outside(name: str, off: float | str, clip: ClipStore) -> None:
    video = VideoDecoder(clip(name), device="cpu")
    begin, end = video.metadata.begin_stream_seconds, video.metadata.end_stream_seconds
    seconds = end if off == "end" else begin + off if off < 0 else end + off
    for ask in (lambda: video.get_frame_played_at(seconds), lambda: video.get_frames_played_at([begin, seconds])):
        with pytest.raises(vd.FrameIndexError) as caught:
            ask()
        assert isinstance(caught.value, IndexError)
        assert str(clip(name)) in str(caught.value)


def test_last_frame_until_the_end(video: VideoDecoder) -> None:
    for seconds in (47 / 25, 47.5 / 25, math.nextafter(video.metadata.end_stream_seconds, 0)):
        assert read_number(video.get_frame_played_at(seconds).data) == 47


@pytest.mark.parametrize("name", ["h264", "gap", "start_10s", "edit_list", "h264_mkv", "h264_ts"])
def test_end_is_that_of_the_last_frame(name: str, clip: ClipStore, reference: Reference) -> None:
    """25 frames a second: the video ends 1/25 s after its last frame begins, whatever gaps come before."""
    end = VideoDecoder(clip(name), device="cpu").metadata.end_stream_seconds
    assert end == pytest.approx(float(reference(name)[-1].pts_seconds or 0) + 1 / 25, abs=1e-3)


@pytest.mark.parametrize("kind", [list, torch.tensor, np.array])
def test_order_and_repeats(video: VideoDecoder, kind: type) -> None:
    batch = video.get_frames_played_at(kind([1.5, 0.1, 0.1, 0.0]))
    assert numbers(batch.data) == [37, 2, 2, 0]


@pytest.mark.parametrize("name", ["h264", "vfr", "start_10s", "edit_list", "gap"])
def test_range(name: str, clip: ClipStore, reference: Reference, device: str) -> None:
    """The frame on screen at the start, and those that begin before the stop."""
    times = [frame.pts_seconds for frame in reference(name)]
    shown = CLIPS[name].numbers
    video = VideoDecoder(clip(name), device=device)
    middle = [(a + b) / 2 for a, b in pairwise(times)]
    for start, stop, want in (
        (times[3], times[9], shown[3:9]),
        (times[3], middle[9], shown[3:10]),
        (middle[3], middle[9], shown[3:10]),
        (middle[5], middle[5], []),
        (times[0], video.metadata.end_stream_seconds, shown),
    ):
        batch = video.get_frames_played_in_range(start, stop)
        assert numbers(batch.data) == want, (start, stop)
        assert len(batch.pts_seconds) == len(want)


@pytest.mark.parametrize(
    "bounds", [(1.0, 0.5), (-0.5, 1.0), (0.0, 2.5), (1.92, 1.92), (50.0, 60.0), (math.nan, 1.0), (0.0, math.nan)]
)
def test_range_outside(video: VideoDecoder, bounds: tuple[float, float]) -> None:
    with pytest.raises(ValueError, match=r"."):
        video.get_frames_played_in_range(*bounds)


@pytest.mark.parametrize("fps", [5.0, 12.5, 25.0, 50.0, 10.0])
def test_resampling(video: VideoDecoder, fps: float) -> None:
    """Frames on screen at start + k / fps."""
    batch = video.get_frames_played_in_range(0.4, 1.2, fps=fps)
    asked = [0.4 + k / fps for k in range(round(0.8 * fps))]
    # 25 / fps is exact for these rates; a hair more keeps a time at a frame's start inside that frame.
    assert numbers(batch.data) == [math.floor(seconds * 25 + 1e-6) for seconds in asked]
    assert batch.pts_seconds.tolist() == pytest.approx(asked, abs=1e-9)
    assert batch.duration_seconds.tolist() == pytest.approx([1 / fps] * len(asked), abs=1e-9)


def test_resampling_all(video: VideoDecoder) -> None:
    assert numbers(video.get_all_frames(fps=12.5).data) == list(range(0, 48, 2))
    assert len(video.get_all_frames(fps=50.0)) == 96


@pytest.mark.parametrize("fps", [0.0, -1.0, math.nan])
def test_rate_that_is_none(video: VideoDecoder, fps: float) -> None:
    with pytest.raises((ValueError, RuntimeError)):
        video.get_all_frames(fps=fps)
