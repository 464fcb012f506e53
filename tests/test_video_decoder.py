"""Every kind of clip, in every order of access: the right picture, the right time."""

from __future__ import annotations

import random

import pytest
import torch

from clips import CLIPS, ClipStore, read_number
from reference import Reference, assert_picture
from videodataset import VideoDecoder


@pytest.mark.parametrize("name", CLIPS)
def test_frames_in_order(name: str, clip: ClipStore, reference: Reference, device: str) -> None:
    """All frames at once, and iteration, against PyAV's full decode."""
    expected = reference(name)
    video = VideoDecoder(clip(name), device=device)
    assert len(video) == video.metadata.num_frames == len(expected)
    frames = video.get_frames_at(list(range(len(expected)))).data
    assert frames.device.type == device
    assert [read_number(frame) for frame in frames] == CLIPS[name].numbers
    for got, want in zip(frames, expected, strict=True):
        assert_picture(got, want)
    for iterated, got in zip(video, frames, strict=True):
        assert torch.equal(iterated, got)


@pytest.mark.parametrize("name", CLIPS)
def test_times(name: str, clip: ClipStore, reference: Reference) -> None:
    video = VideoDecoder(clip(name), device="cpu")
    got = video.get_frames_at(list(range(len(video))))
    assert got.pts_seconds.dtype == got.duration_seconds.dtype == torch.float64
    assert (got.pts_seconds.diff() > 0).all()
    assert (got.duration_seconds > 0).all()
    if CLIPS[name].times == "none":
        return
    want = torch.tensor([frame.pts_seconds for frame in reference(name)], dtype=torch.float64)
    shift = got.pts_seconds[0] - want[0] if CLIPS[name].times == "shifted" else 0.0
    assert torch.allclose(got.pts_seconds - shift, want, rtol=0, atol=1e-9)


@pytest.mark.parametrize("name", CLIPS)
def test_frames_in_any_order(name: str, clip: ClipStore, reference: Reference, device: str) -> None:
    """One by one, shuffled, with repeats, and backwards, on fresh and on used decoders."""
    expected, path = reference(name), clip(name)
    count = len(expected)
    rng = random.Random(name)
    shuffled = [rng.randrange(count) for _ in range(count)]
    in_order = VideoDecoder(path, device=device).get_frames_at(range(count)).data

    used = VideoDecoder(path, device=device)
    for number in rng.sample(range(count), min(count, 16)):
        got = used[number]
        assert torch.equal(got, in_order[number]), f"frame {number} alone"
        assert_picture(got, expected[number])
    for order in (shuffled, list(range(count))[::-1], list(range(count))[::7]):
        for video in (used, VideoDecoder(path, device=device)):
            batch = video.get_frames_at(order)
            for place, number in enumerate(order):
                assert torch.equal(batch.data[place], in_order[number]), f"frame {number} in {order}"


@pytest.mark.parametrize("name", ["h264_15b", "hevc", "h264_open_gop", "vp9", "av1_hierarchical", "mpeg2_b"])
def test_every_pair_of_neighbours(name: str, clip: ClipStore, reference: Reference, device: str) -> None:
    """A frame does not depend on which one was asked for before."""
    expected = reference(name)
    video = VideoDecoder(clip(name), device=device)
    for number in range(0, len(expected) - 1, 3):
        for first, second in ((number, number + 1), (number + 1, number)):
            assert_picture(video[first], expected[first])
            assert_picture(video[second], expected[second])


def test_second_video_stream(clip: ClipStore, reference: Reference, device: str) -> None:
    video = VideoDecoder(clip("two_videos"), stream_index=1, device=device)
    expected = reference("two_videos", stream_index=1)
    assert video.stream_index == 1
    assert len(video) == len(expected) == 20
    for number in (19, 0, 7):
        assert_picture(video[number], expected[number])
        assert read_number(video[number]) == 40 + number


def test_two_streams_do_not_share_an_index(clip: ClipStore) -> None:
    """The saved index of one stream must not serve the other."""
    path = clip("two_videos")
    numbers = [[read_number(VideoDecoder(path, stream_index=index, device="cpu")[3]) for index in (0, 1)] for _ in "ab"]
    assert numbers == [[3, 43], [3, 43]]


@pytest.mark.parametrize("name", ["rotate_90", "mirror_rotate_90", "vp9_odd", "h264_cropped", "hevc_10bit"])
def test_metadata(name: str, clip: ClipStore) -> None:
    recipe, metadata = CLIPS[name], VideoDecoder(clip(name), device="cpu").metadata
    assert (metadata.width, metadata.height) == (recipe.width, recipe.height)
    assert metadata.num_frames == metadata.num_frames_from_content == recipe.count
    assert metadata.codec == {"libx264": "h264", "libx265": "hevc", "libvpx-vp9": "vp9"}[recipe.codec]
    assert metadata.begin_stream_seconds == 0
    assert metadata.end_stream_seconds == pytest.approx(recipe.count / 25, abs=1e-3)
    assert metadata.average_fps == pytest.approx(25, rel=1e-3)


def test_reopening_uses_the_saved_index(clip: ClipStore, reference: Reference, device: str) -> None:
    expected = reference("hevc")
    for _ in range(3):
        video = VideoDecoder(clip("hevc"), device=device)
        assert_picture(video[17], expected[17])
