"""Access by number: torchcodec's meaning of every method."""

from __future__ import annotations

import numpy as np
import pytest
import torch

import videodataset as vd
from clips import ClipStore, read_number
from reference import Reference, assert_picture
from videodataset import Frame, FrameBatch, VideoDecoder

NAME, COUNT = "h264", 48


@pytest.fixture
def video(clip: ClipStore, device: str) -> VideoDecoder:
    """48 frames, 128 x 96, 25 per second from 0 s."""
    return VideoDecoder(clip(NAME), device=device)


def numbers(frames: torch.Tensor) -> list[int | None]:
    return [read_number(frame) for frame in frames]


def test_int(video: VideoDecoder, reference: Reference) -> None:
    for key, number in ((0, 0), (17, 17), (-1, 47), (-48, 0), (np.int64(3), 3), (True, 1)):
        frame = video[key]
        assert frame.shape == (3, 96, 128)
        assert_picture(frame, reference(NAME)[number])


@pytest.mark.parametrize(
    "key",
    [
        slice(None),
        slice(3, 9),
        slice(40, 100),
        slice(-5, None),
        slice(None, None, 7),
        slice(30, 2, 1),
        slice(5, 5),
        slice(-100, 2),
    ],
)
def test_slice(video: VideoDecoder, key: slice) -> None:
    frames = video[key]
    assert frames.shape[1:] == (3, 96, 128)
    assert numbers(frames) == list(range(COUNT))[key]


@pytest.mark.parametrize("key", ["3", 1.0, None, (1, 2), [1, 2]])
def test_key_of_another_type(video: VideoDecoder, key: object) -> None:
    with pytest.raises(TypeError):
        video[key]


@pytest.mark.parametrize("key", [48, 1000, -49, 2**40])
def test_outside(video: VideoDecoder, key: int, clip: ClipStore) -> None:
    for ask in (
        lambda: video[key],
        lambda: video.get_frame_at(key),
        lambda: video.get_frames_at([0, key]),
        lambda: video.get_frames_at(torch.tensor([key])),
    ):
        with pytest.raises(vd.FrameIndexError, match=str(abs(key))) as caught:
            ask()
        assert isinstance(caught.value, IndexError)
        assert isinstance(caught.value, vd.VideoDatasetError)
        assert str(clip(NAME)) in str(caught.value)
    assert read_number(video[5]) == 5


def test_frame_at(video: VideoDecoder, reference: Reference) -> None:
    frame = video.get_frame_at(11)
    assert isinstance(frame, Frame)
    assert_picture(frame.data, reference(NAME)[11])
    assert frame.pts_seconds == pytest.approx(11 / 25, abs=1e-9)
    assert frame.duration_seconds == pytest.approx(1 / 25, abs=1e-9)
    data, pts_seconds, duration_seconds = frame
    assert torch.equal(data, frame.data)
    assert (pts_seconds, duration_seconds) == (frame.pts_seconds, frame.duration_seconds)
    assert read_number(video.get_frame_at(-2).data) == 46


@pytest.mark.parametrize("order", [[7, 3, 3, 40, 0], [-1, 0, -48, -3], list(range(47, -1, -1)), [5] * 6])
@pytest.mark.parametrize("kind", [list, torch.tensor, np.array, tuple])
def test_frames_at(video: VideoDecoder, order: list[int], kind: type) -> None:
    batch = video.get_frames_at(kind(order))
    want = [number % COUNT for number in order]
    assert isinstance(batch, FrameBatch)
    assert numbers(batch.data) == want
    assert batch.pts_seconds.tolist() == pytest.approx([number / 25 for number in want], abs=1e-9)
    assert batch.duration_seconds.tolist() == pytest.approx([1 / 25] * len(want), abs=1e-9)
    assert batch.pts_seconds.device.type == "cpu"


def test_no_frames(video: VideoDecoder) -> None:
    for batch in (
        video.get_frames_at([]),
        video.get_frames_at(torch.tensor([], dtype=torch.int64)),
        video.get_frames_in_range(5, 5),
        video.get_frames_played_in_range(0.4, 0.4),
        video.get_frames_played_at([]),
    ):
        assert batch.data.shape == (0, 3, 96, 128)
        assert batch.data.dtype == torch.uint8
        assert batch.pts_seconds.shape == batch.duration_seconds.shape == (0,)


@pytest.mark.parametrize("index", [1.5, "3", None])
def test_number_of_another_type(video: VideoDecoder, index: object) -> None:
    with pytest.raises((TypeError, ValueError, RuntimeError)):
        video.get_frame_at(index)
    with pytest.raises((TypeError, ValueError, RuntimeError)):
        video.get_frames_at([index])


@pytest.mark.parametrize(
    "arguments", [(0, 5), (10, 20, 3), (0, COUNT, 10), (-5, COUNT), (40, 1000), (3, -40), (20, 10), (0, 1, 100)]
)
def test_frames_in_range(video: VideoDecoder, arguments: tuple[int, ...]) -> None:
    batch = video.get_frames_in_range(*arguments)
    assert numbers(batch.data) == list(range(COUNT))[slice(*arguments)]
    assert len(batch.pts_seconds) == len(batch.data)


def test_range_by_keyword(video: VideoDecoder) -> None:
    assert numbers(video.get_frames_in_range(start=2, stop=9, step=4).data) == [2, 6]
    with pytest.raises(ValueError, match=r"step|zero"):
        video.get_frames_in_range(0, 5, 0)


def test_all_frames(video: VideoDecoder) -> None:
    batch = video.get_all_frames()
    assert numbers(batch.data) == list(range(COUNT))
    assert batch.pts_seconds.tolist() == pytest.approx([k / 25 for k in range(COUNT)], abs=1e-9)


def test_iteration(video: VideoDecoder) -> None:
    assert [read_number(frame) for frame in video] == list(range(COUNT))
    assert len(list(video)) == len(video) == COUNT


@pytest.mark.parametrize("name", ["h264", "rotate_90", "hevc_10bit", "vp9_odd"])
def test_nhwc_is_the_same_picture(name: str, clip: ClipStore, device: str) -> None:
    first = VideoDecoder(clip(name), device=device)
    last = VideoDecoder(clip(name), device=device, dimension_order="NHWC")
    assert torch.equal(first[5].permute(1, 2, 0), last[5])
    assert torch.equal(first[2:5].permute(0, 2, 3, 1), last[2:5])
    assert torch.equal(first.get_frame_at(9).data.permute(1, 2, 0), last.get_frame_at(9).data)
    assert torch.equal(first.get_frames_at([9, 1]).data.permute(0, 2, 3, 1), last.get_frames_at([9, 1]).data)


def test_batch_indexing(video: VideoDecoder) -> None:
    batch = video.get_frames_at([4, 9, 2])
    assert len(batch) == 3
    one = batch[1]
    assert isinstance(one, FrameBatch)
    assert read_number(one.data) == 9
    assert float(one.pts_seconds) == pytest.approx(9 / 25, abs=1e-9)
    assert numbers(batch[1:].data) == [9, 2]
    assert [read_number(each.data) for each in batch] == [4, 9, 2]


def test_frames_are_the_callers_own(video: VideoDecoder) -> None:
    """Writing to a delivered frame changes no other, now or later."""
    batch = video.get_frames_at([3, 3, 4])
    before = video[3].clone()
    batch.data[0].zero_()
    assert torch.equal(batch.data[1], before)
    alone = video[3]
    alone.zero_()
    assert torch.equal(video[3], before)


@pytest.mark.parametrize("threads", [0, 1, 2, 4])
def test_threads_change_nothing(threads: int, clip: ClipStore, reference: Reference, device: str) -> None:
    expected = reference("h264_open_gop")
    video = VideoDecoder(clip("h264_open_gop"), num_ffmpeg_threads=threads, device=device)
    order = [38, 1, 20, 13, 12, 11, 38]
    for frame, number in zip(video.get_frames_at(order).data, order, strict=True):
        assert_picture(frame, expected[number])


@pytest.mark.parametrize(
    "wrong",
    [
        {"dimension_order": "NCWH"},
        {"seek_mode": "fast"},
        {"num_ffmpeg_threads": -1},
        {"device": "nonsense"},
        {"stream_index": 7},
        {"stream_index": -1},
    ],
)
def test_wrong_arguments(wrong: dict[str, object], clip: ClipStore) -> None:
    with pytest.raises((ValueError, RuntimeError)):
        VideoDecoder(clip(NAME), **{"device": "cpu", **wrong})


@pytest.mark.parametrize("mode", ["exact", "approximate"])
def test_seek_mode_is_always_exact(mode: str, clip: ClipStore, reference: Reference, device: str) -> None:
    video = VideoDecoder(clip("h264_open_gop"), seek_mode=mode, device=device)
    assert_picture(video[23], reference("h264_open_gop")[23])
