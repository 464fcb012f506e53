"""Files that cannot be read, and questions without an answer: a typed error that names the path, soon."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import videodataset as vd
from clips import ClipStore
from outcome import answer_or_none
from reference import Reference, assert_picture
from videodataset import VideoDecoder

REFUSED = {
    "empty": vd.UnreadableVideoError,
    "garbage": vd.UnreadableVideoError,
    "zeros": vd.UnreadableVideoError,
    "text": vd.UnreadableVideoError,
    "no_moov": vd.UnreadableVideoError,
    "cut_header": vd.UnreadableVideoError,
    "huge_box": (vd.UnreadableVideoError, vd.NoVideoStreamError),
    "unknown_codec": vd.UnsupportedVideoError,
    "audio_only": vd.NoVideoStreamError,
}


def open_and_read(source: Any) -> None:
    VideoDecoder(source, device="cpu")[0]


@pytest.mark.timeout(30)
@pytest.mark.parametrize("name", REFUSED)
@pytest.mark.parametrize("kind", [str, Path])
def test_refused(name: str, kind: Callable[[Path], Any], clip: ClipStore, reference: Reference) -> None:
    path = clip(name)
    with pytest.raises(REFUSED[name]) as caught:
        open_and_read(kind(path))
    assert str(path) in str(caught.value)
    assert isinstance(caught.value, vd.VideoDatasetError)
    # The process goes on.
    assert_picture(VideoDecoder(clip("h264"), device="cpu")[3], reference("h264")[3])


@pytest.mark.timeout(30)
@pytest.mark.parametrize("name", REFUSED)
def test_refused_bytes(name: str, clip: ClipStore) -> None:
    with pytest.raises(REFUSED[name], match="bytes"):
        open_and_read(clip(name).read_bytes())


@pytest.mark.parametrize(
    ("error", "builtin"),
    [
        (vd.UnreadableVideoError, OSError),
        (vd.NoVideoStreamError, ValueError),
        (vd.UnsupportedVideoError, ValueError),
        (vd.DamagedVideoError, RuntimeError),
        (vd.FrameIndexError, IndexError),
    ],
)
def test_each_is_also_a_builtin(error: type[Exception], builtin: type[Exception]) -> None:
    assert issubclass(error, builtin)
    assert issubclass(error, vd.VideoDatasetError)


def test_refused_is_told_again(clip: ClipStore) -> None:
    """An error is not saved as an index, nor forgotten."""
    messages = set()
    for _ in range(3):
        with pytest.raises(vd.NoVideoStreamError) as caught:
            open_and_read(clip("audio_only"))
        messages.add(str(caught.value))
    assert len(messages) == 1


def test_missing(tmp_path: Path) -> None:
    path = tmp_path / "not here.mp4"
    with pytest.raises(vd.UnreadableVideoError) as caught:
        open_and_read(path)
    assert str(path) in str(caught.value)


def test_directory(tmp_path: Path) -> None:
    with pytest.raises(vd.UnreadableVideoError) as caught:
        open_and_read(tmp_path)
    assert str(tmp_path) in str(caught.value)


def test_no_permission(clip: ClipStore, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "locked.mp4"
    shutil.copy(clip("h264"), path)
    really_open = os.open

    def refuse(name: Any, *arguments: Any, **options: Any) -> int:
        if os.fspath(name) == str(path):
            raise PermissionError(13, "Permission denied", str(path))
        return really_open(name, *arguments, **options)

    monkeypatch.setattr(os, "open", refuse)  # chmod would not stop root
    with pytest.raises(vd.UnreadableVideoError) as caught:
        open_and_read(path)
    assert str(path) in str(caught.value)


@pytest.mark.timeout(30)
def test_pipe_is_not_waited_for(tmp_path: Path) -> None:
    """A named pipe that nobody writes to must not hang the reader."""
    path = tmp_path / "pipe.mp4"
    os.mkfifo(path)
    with pytest.raises(vd.UnreadableVideoError) as caught:
        open_and_read(path)
    assert str(path) in str(caught.value)


def test_stream_of_another_kind(clip: ClipStore) -> None:
    path = clip("audio_first")
    for index in (0, 2, -1):
        with pytest.raises(vd.NoVideoStreamError) as caught:
            VideoDecoder(path, stream_index=index, device="cpu")
        assert str(path) in str(caught.value)


@pytest.mark.parametrize("read_before", [True, False])
def test_file_replaced_while_open(read_before: bool, clip: ClipStore, tmp_path: Path, reference: Reference) -> None:
    """Frames of the old file or a typed error; never a frame of the new file."""
    path, fresh = tmp_path / "video.mp4", tmp_path / "new.mp4"
    shutil.copy(clip("h264"), path)
    video = VideoDecoder(path, device="cpu")
    if read_before:
        assert_picture(video[3], reference("h264")[3])
    shutil.copy(clip("h264_bt709"), fresh)
    fresh.replace(path)
    for number in (3, 20, 0):
        frame = answer_or_none(path, lambda number=number: video[number])
        if frame is not None:
            assert_picture(frame, reference("h264")[number])
    assert_picture(VideoDecoder(path, device="cpu")[20], reference("h264_bt709")[20])


def test_file_overwritten_while_open(clip: ClipStore, tmp_path: Path, reference: Reference) -> None:
    path = tmp_path / "video.mp4"
    shutil.copy(clip("h264"), path)
    video = VideoDecoder(path, device="cpu")
    assert_picture(video[3], reference("h264")[3])
    path.write_bytes(clip("h264_bt709").read_bytes())
    with pytest.raises(vd.UnreadableVideoError, match=str(path)):
        video[20]
    assert_picture(VideoDecoder(path, device="cpu")[20], reference("h264_bt709")[20])


def test_file_cut_while_open(clip: ClipStore, tmp_path: Path) -> None:
    path = tmp_path / "video.mp4"
    shutil.copy(clip("h264_faststart"), path)
    video = VideoDecoder(path, device="cpu")
    os.truncate(path, path.stat().st_size // 2)
    with pytest.raises(vd.VideoDatasetError, match=str(path)):
        video[31]


def test_file_removed_while_open(clip: ClipStore, tmp_path: Path, reference: Reference) -> None:
    path = tmp_path / "video.mp4"
    shutil.copy(clip("h264"), path)
    video = VideoDecoder(path, device="cpu")
    path.unlink()
    frame = answer_or_none(path, lambda: video[5])
    if frame is not None:
        assert_picture(frame, reference("h264")[5])


@pytest.mark.parametrize("name", ["flipped", "truncated", "garbage"])
def test_nothing_is_printed(name: str, clip: ClipStore) -> None:
    """FFmpeg's own complaints do not reach the user's terminal."""
    code = (
        "import sys, videodataset as vd\n"
        "try:\n    video = vd.VideoDecoder(sys.argv[1], device='cpu')\n"
        "except vd.VideoDatasetError:\n    sys.exit()\n"
        "for number in range(len(video)):\n"
        "    try:\n        video[number]\n"
        "    except vd.VideoDatasetError:\n        pass\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", code, clip(name)], capture_output=True, text=True, timeout=60, check=False
    )
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")
