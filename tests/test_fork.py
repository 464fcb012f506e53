"""Decoders across processes: fork, spawn, pickle."""

from __future__ import annotations

import multiprocessing
import os
import pickle
import threading
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch

from clips import ClipStore
from reference import Reference, assert_picture
from videodataset import VideoDecoder

pytestmark = [
    pytest.mark.timeout(120),
    # Python warns of fork in a process with threads; that it works nevertheless is what is tested.
]
CONTAINERS = ["h264", "h264_ts", "h264_mkv"]


def in_forked_child(work: Callable[[], Any]) -> None:
    """Run `work` in a bare os.fork child and assert that it ends well."""
    pid = os.fork()
    if pid == 0:
        code = 1
        try:
            work()
            code = 0
        except BaseException:
            import traceback

            traceback.print_exc()
        finally:
            os._exit(code)
    _, status = os.waitpid(pid, 0)
    assert os.waitstatus_to_exitcode(status) == 0


@pytest.mark.parametrize("name", CONTAINERS)
def test_used_before_fork(name: str, clip: ClipStore, reference: Reference) -> None:
    expected = reference(name)
    video = VideoDecoder(clip(name), device="cpu")
    assert_picture(video[20], expected[20])

    def child() -> None:
        for number in (20, 3, 30):
            assert_picture(video[number], expected[number])
        assert_picture(VideoDecoder(clip(name), device="cpu")[7], expected[7])

    for number in (21, 4):
        in_forked_child(child)
        assert_picture(video[number], expected[number])


def test_parent_and_child_at_the_same_time(clip: ClipStore, reference: Reference) -> None:
    """They share open files; neither may move the other's position."""
    expected = reference("h264")
    video = VideoDecoder(clip("h264"), device="cpu")
    video[0]
    pids = []
    for start in range(3):
        pid = os.fork()
        if pid == 0:
            code = 1
            try:
                for number in list(range(start, 48, 3)) * 3:
                    assert_picture(video[number], expected[number])
                code = 0
            finally:
                os._exit(code)
        pids.append(pid)
    for number in list(range(48)) * 2:
        assert_picture(video[number], expected[number])
    assert [os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) for pid in pids] == [0, 0, 0]


def test_fork_while_another_thread_decodes(clip: ClipStore, reference: Reference) -> None:
    """Locks that a thread of the parent held at the fork must not stop the child."""
    expected = reference("h264")
    video = VideoDecoder(clip("h264"), num_ffmpeg_threads=2, device="cpu")
    stop = threading.Event()

    def busy() -> None:
        while not stop.is_set():
            video.get_frames_at([1, 20, 40])

    thread = threading.Thread(target=busy)
    thread.start()
    try:
        for number in range(0, 40, 5):
            in_forked_child(lambda number=number: assert_picture(video[number], expected[number]))
    finally:
        stop.set()
        thread.join()


def read_frames(video: VideoDecoder, numbers: list[int]) -> np.ndarray[Any, Any]:
    # Not torch.stack: OpenMP hangs in a forked child whose parent has used it.
    return np.stack([video[number].numpy() for number in numbers])


@pytest.mark.parametrize("method", ["fork", "spawn"])
def test_multiprocessing(method: str, clip: ClipStore, reference: Reference) -> None:
    """The decoder travels to the workers by fork or by pickle."""
    expected, numbers = reference("hevc"), [30, 2, 17]
    video = VideoDecoder(clip("hevc"), device="cpu")
    video[5]
    with multiprocessing.get_context(method).Pool(2) as pool:
        for frames in pool.starmap(read_frames, [(video, numbers)] * 2):
            for frame, number in zip(frames, numbers, strict=True):
                assert_picture(torch.from_numpy(frame), expected[number])


class Frames(torch.utils.data.Dataset):
    """Item k is frame k of a decoder made in the main process."""

    def __init__(self, video: VideoDecoder) -> None:
        self.video = video

    def __len__(self) -> int:
        return len(self.video)

    def __getitem__(self, number: int) -> torch.Tensor:
        return self.video[number]


@pytest.mark.parametrize("method", ["fork", "spawn"])
def test_torch_data_loader(method: str, clip: ClipStore, reference: Reference) -> None:
    expected = reference("h264")
    video = VideoDecoder(clip("h264"), device="cpu")
    video[9]
    loader = torch.utils.data.DataLoader(Frames(video), batch_size=6, num_workers=2, multiprocessing_context=method)
    frames = [frame for batch in loader for frame in batch]
    assert len(frames) == 48
    for got, want in zip(frames, expected, strict=True):
        assert_picture(got, want)


@pytest.mark.parametrize("as_bytes", [False, True])
def test_pickle(as_bytes: bool, clip: ClipStore, reference: Reference) -> None:
    path = clip("vp9")
    video = VideoDecoder(path.read_bytes() if as_bytes else path, dimension_order="NHWC", device="cpu")
    video[3]
    again = pickle.loads(pickle.dumps(video))
    assert len(again) == len(video)
    assert again.metadata == video.metadata
    assert torch.equal(again[20], video[20])
    assert_picture(again[20].permute(2, 0, 1), reference("vp9")[20])


def test_pickle_of_the_second_stream(clip: ClipStore) -> None:
    video = VideoDecoder(clip("two_videos"), stream_index=1, device="cpu")
    again = pickle.loads(pickle.dumps(video))
    assert again.stream_index == 1
    assert torch.equal(again[7], video[7])
