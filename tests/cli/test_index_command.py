"""`videodataset index`: in parallel, gone on with, with failures told, ended by Ctrl-C without a trace."""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest

from clips import ClipStore

COMMAND = [sys.executable, "-c", "from videodataset.cli import app; app()", "index"]


@pytest.fixture
def tree(tmp_path: Path, clip: ClipStore) -> Path:
    """Five videos in nested folders, one that is none, and a file of another kind."""
    root = tmp_path / "videos"
    for number, name in enumerate(["h264", "hevc", "vp9", "h264_15b", "mpeg4_b"]):
        folder = root / f"part{number % 2}" / "deep"
        folder.mkdir(parents=True, exist_ok=True)
        shutil.copy(clip(name), folder)
    (root / "broken.mp4").write_bytes(b"no video")
    (root / "notes.txt").write_text("not looked at")
    return root


def run(*arguments: object) -> tuple[int, dict[str, Any], str]:
    done = subprocess.run(
        [*COMMAND, *map(str, arguments), "--json"], check=False, capture_output=True, text=True, timeout=120
    )
    return done.returncode, json.loads(done.stdout), done.stderr


@pytest.mark.parametrize("jobs", [1, 2])
def test_tree(tree: Path, jobs: int) -> None:
    code, facts, errors = run(tree, "--jobs", jobs)
    assert code == 1, "a file failed"
    assert (facts["files"], facts["new"], facts["current"], facts["failed"]) == (6, 5, 0, 1)
    assert facts["frames"] > 100
    assert [failure["path"] for failure in facts["failures"]] == [str(tree / "broken.mp4")]
    assert "UnreadableVideoError" in facts["failures"][0]["reason"]
    assert "Traceback" not in errors

    (tree / "broken.mp4").unlink()
    code, facts, _ = run(tree)
    assert (code, facts["new"], facts["current"]) == (0, 0, 5)
    code, facts, _ = run(tree, "--rebuild")
    assert (code, facts["new"], facts["current"]) == (0, 5, 0)


def test_changed_file_is_indexed_again(tree: Path, clip: ClipStore) -> None:
    run(tree)
    shutil.copy(clip("h264"), next(tree.rglob("hevc*")))
    _, facts, _ = run(tree)
    assert (facts["new"], facts["current"]) == (1, 4)


def test_missing_folder(tmp_path: Path) -> None:
    done = subprocess.run([*COMMAND, "none"], check=False, cwd=tmp_path, capture_output=True, text=True, timeout=60)
    assert done.returncode == 2
    assert "exist" in done.stderr
    assert "Traceback" not in done.stderr


def test_interrupted_and_gone_on_with(tmp_path: Path, clip: ClipStore, index_dir: Path) -> None:
    root = tmp_path / "many"
    root.mkdir()
    for number in range(400):
        os.link(clip("h264_one_gop"), root / f"{number:03}.mp4")
    process = subprocess.Popen(
        [*COMMAND, str(root), "--jobs", "2", "--json"], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    )
    deadline = time.monotonic() + 60
    while not (index_dir.exists() and len(list(index_dir.glob("*.npz"))) >= 5):
        assert time.monotonic() < deadline
        assert process.poll() is None, "ended before it could be interrupted"
        time.sleep(0.01)
    process.send_signal(signal.SIGINT)
    out, errors = process.communicate(timeout=60)
    assert process.returncode == 130
    assert "Traceback" not in errors
    facts = json.loads(out)
    assert facts["interrupted"] is True
    assert not list(index_dir.glob("*.tmp"))
    kept = len(list(index_dir.glob("*.npz")))
    assert 5 <= kept < 400
    code, facts, _ = run(root)
    assert (code, facts["current"], facts["new"]) == (0, kept, 400 - kept)
