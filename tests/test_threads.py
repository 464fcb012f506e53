"""Decoders and threads: right frames whoever asks, at the same time."""

from __future__ import annotations

import random
from concurrent.futures import ThreadPoolExecutor

import pytest

from clips import ClipStore
from reference import Reference, assert_picture
from videodataset import VideoDecoder

pytestmark = pytest.mark.timeout(120)
THREADS = 8


@pytest.mark.parametrize("name", ["h264", "hevc", "h264_ts", "vp9"])
def test_one_decoder(name: str, clip: ClipStore, reference: Reference, device: str) -> None:
    expected = reference(name)
    video = VideoDecoder(clip(name), device=device)

    def work(seed: int) -> None:
        rng = random.Random(seed)
        for _ in range(6):
            number = rng.randrange(len(expected))
            assert_picture(video[number], expected[number])
            order = [rng.randrange(len(expected)) for _ in range(3)]
            for frame, wanted in zip(video.get_frames_at(order).data, order, strict=True):
                assert_picture(frame, expected[wanted])

    with ThreadPoolExecutor(THREADS) as pool:
        list(pool.map(work, range(THREADS)))


def test_one_file_object(clip: ClipStore, reference: Reference, device: str) -> None:
    """A file object has one position, which threads must not pull from each other."""
    expected = reference("h264")
    with clip("h264").open("rb") as file:
        video = VideoDecoder(file, device=device)

        def work(seed: int) -> None:
            for number in random.Random(seed).sample(range(48), 8):
                assert_picture(video[number], expected[number])

        with ThreadPoolExecutor(THREADS) as pool:
            list(pool.map(work, range(THREADS)))


def test_several_decoders(clip: ClipStore, reference: Reference, device: str) -> None:
    """Different codecs and sizes at once, opened in the threads."""
    names = ["h264", "hevc", "vp9_odd", "rotate_90"]
    expected = {name: reference(name) for name in names}
    paths = {name: clip(name) for name in names}

    def work(seed: int) -> None:
        rng = random.Random(seed)
        for _ in range(3):
            name = rng.choice(names)
            video = VideoDecoder(paths[name], device=device)
            for number in rng.sample(range(len(video)), 4):
                assert_picture(video[number], expected[name][number])

    with ThreadPoolExecutor(THREADS) as pool:
        list(pool.map(work, range(THREADS)))


def test_first_opening_at_once(clip: ClipStore, reference: Reference) -> None:
    """Eight threads build and save the same index."""
    path, expected = clip("hevc"), reference("hevc")

    def work(number: int) -> None:
        assert_picture(VideoDecoder(path, device="cpu")[number], expected[number])

    with ThreadPoolExecutor(THREADS) as pool:
        list(pool.map(work, range(THREADS)))
