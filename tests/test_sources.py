"""Every kind of source gives the same frames."""

from __future__ import annotations

import io
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch

from clips import ClipStore
from reference import Reference, assert_picture
from videodataset import VideoDecoder


class OnlyReadAndSeek:
    """The least a file-like source has; `read` gives less than asked, as sockets and some stores do."""

    def __init__(self, data: bytes) -> None:
        self._file = io.BytesIO(data)

    def read(self, size: int) -> bytes:
        return self._file.read(min(size, 1000) if size >= 0 else size)

    def seek(self, offset: int, whence: int = 0) -> int:
        return self._file.seek(offset, whence)


def tensor_of(path: Path) -> torch.Tensor:
    return torch.frombuffer(bytearray(path.read_bytes()), dtype=torch.uint8)


SOURCES: dict[str, Callable[[Path], Any]] = {
    "str": str,
    "path": lambda path: path,
    "bytes": lambda path: path.read_bytes(),
    "bytearray": lambda path: bytearray(path.read_bytes()),
    "tensor": tensor_of,
    "strided_tensor": lambda path: tensor_of(path).repeat_interleave(2)[::2],
    "bytes_io": lambda path: io.BytesIO(path.read_bytes()),
    "file_like": lambda path: OnlyReadAndSeek(path.read_bytes()),
}
CONTAINERS = ["h264", "h264_fragmented", "h264_mkv", "h264_ts", "h264_flv", "vp8_hidden", "h264_avi", "mpeg2_ts"]


@pytest.mark.parametrize("kind", SOURCES)
@pytest.mark.parametrize("name", CONTAINERS)
def test_source(kind: str, name: str, clip: ClipStore, reference: Reference, device: str) -> None:
    expected = reference(name)
    video = VideoDecoder(SOURCES[kind](clip(name)), device=device)
    assert len(video) == len(expected)
    for number in (len(expected) - 1, 2, 13, 2):
        assert_picture(video[number], expected[number])


@pytest.mark.parametrize("name", ["h264", "h264_ts"])
def test_open_file(name: str, clip: ClipStore, reference: Reference, device: str) -> None:
    expected = reference(name)
    with clip(name).open("rb") as file:
        file.seek(123)
        video = VideoDecoder(file, device=device)
        assert_picture(video[13], expected[13])


def test_equal_bytes_of_different_videos_are_told_apart(clip: ClipStore, reference: Reference) -> None:
    """Nothing is remembered of bytes under an address or a size that others may have later."""
    for name in ("h264", "hevc", "h264", "vp9"):
        video = VideoDecoder(clip(name).read_bytes(), device="cpu")
        assert_picture(video[13], reference(name)[13])
        del video


@pytest.mark.parametrize("source", [None, 3, 1.5, ["a.mp4"], object()])
def test_no_source(source: object) -> None:
    with pytest.raises(TypeError):
        VideoDecoder(source, device="cpu")


@pytest.mark.parametrize("tensor", [torch.zeros(8), torch.zeros(2, 8, dtype=torch.uint8)])
def test_tensor_that_is_no_file(tensor: torch.Tensor) -> None:
    with pytest.raises((TypeError, ValueError)):
        VideoDecoder(tensor, device="cpu")


def test_relative_path(clip: ClipStore, monkeypatch: pytest.MonkeyPatch, reference: Reference) -> None:
    """A decoder goes on after the working directory has changed."""
    path = clip("h264")
    monkeypatch.chdir(path.parent)
    video = VideoDecoder(path.name, device="cpu")
    assert_picture(video[5], reference("h264")[5])
    monkeypatch.chdir("/")
    assert_picture(video[30], reference("h264")[30])


def test_strange_file_name(clip: ClipStore, tmp_path: Path, reference: Reference) -> None:
    """A name that FFmpeg would take for an address or a pattern."""
    for file_name in ("a:b.mp4", "100%03d.mp4", "a?b#c.mp4", "ä ö.mp4", "pipe:", "-"):
        path = tmp_path / file_name
        path.write_bytes(clip("h264").read_bytes())
        assert_picture(VideoDecoder(path, device="cpu")[5], reference("h264")[5])
