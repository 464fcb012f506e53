"""Damaged files: every frame is either right or a typed error, and what is whole is delivered."""

from __future__ import annotations

import random
from pathlib import Path

import pytest
import torch

from clips import ClipStore
from clips.damage import damaged_packets
from clips.encode import read_packets
from outcome import answer_or_none
from reference import Reference, Shown, assert_picture
from videodataset import VideoDecoder

pytestmark = pytest.mark.timeout(60)


def read(path: Path, video: VideoDecoder, number: int) -> torch.Tensor | None:
    return answer_or_none(path, lambda: video[number])


def place_of(seconds: float, expected: list[Shown]) -> int:
    """Number that a frame has in the sound file; a reader that counts packets cannot know of a gap between two."""
    return min(range(len(expected)), key=lambda k: abs(float(expected[k].pts_seconds or 0) - seconds))


def check(path: Path, expected: list[Shown], whole: set[int], lost: set[int]) -> None:
    """Read in order and shuffled: frames of `whole` are right, those of `lost` never come, others are either."""
    video = VideoDecoder(path, device="cpu")
    count = len(video)
    assert count <= len(expected)
    times = video._index.frame_pts_seconds.tolist()
    for order in (list(range(count)), random.Random(1).sample(range(count), count)):
        delivered = set()
        video = VideoDecoder(path, device="cpu")
        for number in order:
            frame, place = read(path, video, number), place_of(times[number], expected)
            if frame is None:
                continue
            delivered.add(place)
            if place in whole:
                assert_picture(frame, expected[place])
        assert whole - delivered == set()
        assert lost & delivered == set()


def test_flipped(clip: ClipStore, reference: Reference) -> None:
    """Groups of two pictures, in order: what is not in a changed group is whole."""
    bad = {k // 2 * 2 + j for k in damaged_packets("flipped") for j in (0, 1)}
    check(clip("flipped"), reference("h264_g2"), whole=set(range(24)) - bad, lost=set())


def test_flipped_is_never_a_wrong_picture(clip: ClipStore, reference: Reference) -> None:
    """A picture that FFmpeg patched up is not delivered as if it were right."""
    expected, path = reference("h264_g2"), clip("flipped")
    video = VideoDecoder(path, device="cpu")
    raised = 0
    for number in damaged_packets("flipped"):
        frame = read(path, video, number)
        raised += frame is None
    assert raised > 0
    assert_picture(video[23], expected[23])


def test_zero_hole(clip: ClipStore, reference: Reference) -> None:
    """Closed groups of 16: only the group of the hole suffers, and its lost pictures raise."""
    packets = read_packets(clip("h264_15b"))
    times = sorted(packet.pts for packet in packets)
    lost = {times.index(packets[k].pts) for k in damaged_packets("zero_hole")}
    groups = {number // 16 for number in lost}
    whole = {number for number in range(48) if number // 16 not in groups}
    check(clip("zero_hole"), reference("h264_15b"), whole=whole, lost=lost)


def test_truncated(clip: ClipStore, reference: Reference) -> None:
    path = clip("truncated")
    size_bytes = path.stat().st_size
    packets = read_packets(clip("h264_faststart"))
    times = sorted(packet.pts for packet in packets)
    here = [packet.pos + packet.size <= size_bytes for packet in packets]
    last_key = max(k for k, packet in enumerate(packets) if packet.is_keyframe and here[k])
    # Before the last key picture that is there, in the order of showing, everything is.
    whole = {number for number in range(32) if times[number] < packets[last_key].pts}
    lost = {times.index(packet.pts) for packet, is_here in zip(packets, here, strict=True) if not is_here}
    check(path, reference("h264_faststart"), whole=whole, lost=lost)


def test_cut_at_every_tenth(clip: ClipStore, tmp_path: Path, reference: Reference) -> None:
    """A file cut anywhere opens or is refused, and gives only right frames."""
    data, expected = clip("h264_faststart").read_bytes(), reference("h264_faststart")
    for tenth in range(10):
        path = tmp_path / f"cut{tenth}.mp4"
        path.write_bytes(data[: len(data) * tenth // 10])
        video = answer_or_none(path, lambda path=path: VideoDecoder(path, device="cpu"))
        for number, seconds in enumerate(video._index.frame_pts_seconds.tolist() if video else ()):
            frame = read(path, video, number)
            if frame is not None:
                assert_picture(frame, expected[place_of(seconds, expected)])


@pytest.mark.parametrize("suffix", ["mkv", "ts", "flv", "avi"])
def test_cut_streams(suffix: str, clip: ClipStore, tmp_path: Path, reference: Reference) -> None:
    """Containers without a header at the end: the first half stays readable."""
    name = f"h264_{suffix}"
    data, expected = clip(name).read_bytes(), reference(name)
    path = tmp_path / f"cut.{suffix}"
    path.write_bytes(data[: len(data) // 2])
    video = VideoDecoder(path, device="cpu")
    assert len(video) >= 8
    for number in range(len(video)):
        frame = read(path, video, number)
        if number < 8:
            assert frame is not None
        if frame is not None and number < len(video) - 4:
            assert_picture(frame, expected[number])


@pytest.mark.parametrize("seed", range(12))
def test_random_flips(seed: int, clip: ClipStore, tmp_path: Path) -> None:
    """Whatever is changed, the answer is a frame or a typed error; no crash, no hang, no other error."""
    rng = random.Random(seed)
    name = ["h264", "hevc", "vp9", "h264_mkv", "h264_ts", "av1_g2"][seed % 6]
    source = clip(name)
    data = bytearray(source.read_bytes())
    for _ in range(20):
        data[rng.randrange(len(data))] ^= 1 << rng.randrange(8)
    path = tmp_path / f"flips{source.suffix}"
    path.write_bytes(data)
    video = answer_or_none(path, lambda: VideoDecoder(path, device="cpu"))
    for number in range(0, len(video) if video else 0, 5):
        read(path, video, number)
