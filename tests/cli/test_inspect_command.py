"""`videodataset inspect`: facts and advice as text and as JSON, one file and many, failures told."""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from clips import ClipStore

COMMAND = [sys.executable, "-c", "from videodataset.cli import app; app()", "inspect"]


def run(*arguments: object) -> subprocess.CompletedProcess[str]:
    done = subprocess.run(
        [*COMMAND, *map(str, arguments)],
        check=False,
        capture_output=True,
        text=True,
        timeout=120,
        env={**os.environ, "COLUMNS": "160"},
    )
    assert "Traceback" not in done.stderr
    return done


@pytest.fixture
def tree(tmp_path: Path, clip: ClipStore) -> Path:
    """Three videos in nested folders, one that is none, and a file of another kind."""
    root = tmp_path / "[videos]"
    for name in ("h264_15b", "hevc_no_b", "h264_ts"):
        (root / name).mkdir(parents=True)
        shutil.copy(clip(name), root / name)
    (root / "broken.mp4").write_bytes(b"no video")
    (root / "notes.txt").write_text("not looked at")
    return root


def test_one_file_as_text(clip: ClipStore) -> None:
    done = run(clip("h264_one_gop"))
    assert done.returncode == 0
    text = " ".join(done.stdout.split())
    for fact in (
        "codec h264 (High)",
        "size 128x96",
        "pixels yuv420p, 8 bit",
        "colour not tagged, read as BT.601 limited",
        "frames 40, 1.600 s, 25 fps",
        "frame rate constant",
        "GOPs 1, of 40 pictures, closed",
        "B-frames yes",
        "(of 20.50) pictures decoded",
        "reads direct",
        "decoded by cpu: FFmpeg's decoder h264",
        "-g 8 -bf 0",
        "(4.5 pictures per random frame)",
        "(2.8 pictures per random frame)",
    ):
        assert fact in text
    command = next(line for line in done.stdout.splitlines() if "-g 8 -bf 0" in line)
    assert command.strip().startswith("ffmpeg ")
    assert command.endswith("OUT.mp4"), "one line, to be copied"


def test_one_file_as_json(clip: ClipStore) -> None:
    done = run(clip("h264_15b"), "--json")
    facts = json.loads(done.stdout)
    assert done.returncode == 0
    assert (facts["path"], facts["codec"], facts["frames"]) == (str(clip("h264_15b")), "h264", 48)
    assert facts["pictures_per_random_frame"] == {"all": 8.5, "needed": 2.8125}
    assert facts["bytes_per_random_frame"]["needed"] < facts["bytes_per_random_frame"]["all"]
    assert facts["advice"] == []


def test_one_file_that_is_no_video(tmp_path: Path) -> None:
    (tmp_path / "[red]broken.mp4").write_bytes(b"no video")
    done = run(tmp_path / "[red]broken.mp4", "--json")
    assert done.returncode == 1
    assert "UnreadableVideoError" in json.loads(done.stdout)["reason"]
    done = run(tmp_path / "[red]broken.mp4")
    assert (done.returncode, done.stdout) == (1, "")
    assert "[red]broken.mp4" in done.stderr


def test_commands_are_printed_as_they_are(clip: ClipStore) -> None:
    """Also the ":v:" of stream specifiers, which is an emoji to rich."""
    assert "-map 0:v:0 -c copy" in run(clip("h264_ts")).stdout


def test_file_names_that_are_no_text(tmp_path: Path, clip: ClipStore) -> None:
    for name in (b"\xff.mp4", b"[red].mp4"):
        shutil.copy(clip("h264_g2"), os.path.join(os.fsencode(tmp_path), name))
    done = run(tmp_path)
    assert done.returncode == 0
    assert {"\\udcff.mp4", "[red].mp4"} <= {line.split()[0] for line in done.stdout.splitlines() if line}
    done = run(tmp_path, "--json")
    assert [os.fsencode(report["path"])[-5:] for report in json.loads(done.stdout)["files"]] == [b"].mp4", b"\xff.mp4"]


def test_missing_file(tmp_path: Path) -> None:
    assert run(tmp_path / "none.mp4").returncode == 2


def test_folder_as_json(tree: Path) -> None:
    done = run(tree, "--jobs", 2, "--json")
    assert done.returncode == 1, "a file failed"
    facts = json.loads(done.stdout)
    assert [Path(report["path"]).stem for report in facts["files"]] == ["h264_15b", "h264_ts", "hevc_no_b"]
    assert [failure["path"] for failure in facts["failures"]] == [str(tree / "broken.mp4")]
    summary = facts["summary"]
    assert (summary["files"], summary["failed"], summary["interrupted"]) == (3, 1, False)
    assert summary["frames"] == 48 + 32 + 24
    assert summary["codecs"] == {"h264": 2, "hevc": 1}
    assert summary["advice"] == {"through_demuxer": 1}
    costs = [report["pictures_per_random_frame"]["needed"] for report in facts["files"]]
    assert summary["pictures_per_random_frame"]["needed"] == pytest.approx(
        (48 * 45 / 16 + 32 * costs[1] + 24 * 4.5) / 104
    )


def test_folder_as_text(tree: Path) -> None:
    done = run(tree, "--jobs", 1)
    assert done.returncode == 1
    rows = {line.split()[0]: line.split() for line in done.stdout.splitlines() if line}
    assert rows["h264_15b/h264_15b.mp4"][1:7] == ["h264", "128x96", "25", "48", "16", "2.81"]
    assert rows["hevc_no_b/hevc_no_b.mp4"][1:7] == ["hevc", "176x144", "25", "24", "8", "4.50"]
    assert rows["h264_ts/h264_ts.ts"][-2:] == ["through", "demuxer"]
    assert str(tree) in done.stdout.replace("\n", "")
    assert "3 inspected, 1 failed, of 4 files" in done.stdout
    assert "broken.mp4" in done.stderr


def test_empty_folder(tmp_path: Path) -> None:
    done = run(tmp_path)
    assert (done.returncode, done.stdout.split()[0]) == (0, "0")
    facts = json.loads(run(tmp_path, "--json").stdout)
    assert (facts["files"], facts["failures"]) == ([], [])
    assert facts["summary"]["pictures_per_random_frame"] == {"all": None, "needed": None}


def test_ctrl_c(tmp_path: Path, clip: ClipStore, index_dir: Path) -> None:
    root = tmp_path / "many"
    root.mkdir()
    for number in range(400):
        os.link(clip("h264_one_gop"), root / f"{number:03}.mp4")
    process = subprocess.Popen(
        [*COMMAND, str(root), "--jobs", "2", "--json"],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
    )
    deadline = time.monotonic() + 60
    while not (index_dir.exists() and len(list(index_dir.glob("*.npz"))) >= 5):
        assert time.monotonic() < deadline
        assert process.poll() is None, "ended before it could be interrupted"
        time.sleep(0.01)
    os.killpg(process.pid, signal.SIGINT)
    out, errors = process.communicate(timeout=60)
    assert process.returncode == 130
    assert "Traceback" not in errors
    facts = json.loads(out)
    assert facts["summary"]["interrupted"] is True
    assert 0 < len(facts["files"]) < 400
