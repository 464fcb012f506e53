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


def test_index_that_cannot_be_saved_is_a_failure(tree: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "a file").touch()
    monkeypatch.setenv("VIDEODATASET_INDEX_DIR", str(tmp_path / "a file" / "index"))
    code, facts, errors = run(tree)
    assert (code, facts["new"], facts["failed"]) == (1, 0, 6)
    assert "cannot be saved" in facts["failures"][-1]["reason"]
    assert "Traceback" not in errors


def test_file_names_are_no_markup_and_dead_links_are_told(tmp_path: Path) -> None:
    for name in ("[red]a[/blue].mp4", "b[/].mkv"):  # in each a folder and a file
        (tmp_path / name).parent.mkdir()
        (tmp_path / name).write_bytes(b"no video")
    (tmp_path / "dead.mp4").symlink_to("nowhere")
    os.mkfifo(tmp_path / "pipe.mp4")  # reading it would wait for ever
    done = subprocess.run([*COMMAND, str(tmp_path)], check=False, capture_output=True, text=True, timeout=60)
    assert done.returncode == 1
    assert "Traceback" not in done.stderr
    assert "[red]a[/blue].mp4" in done.stderr
    assert "0 indexed, 0 up to date, 3 failed, of 3 files" in done.stderr
    assert done.stdout == ""


DIES_ON_ONE_FILE = """
import importlib, os
command = importlib.import_module("videodataset.cli.index")  # the package's `index` is the function
inner = command.index_file
def index_file(path, rebuild):
    if "hevc" in path:
        os.kill(os.getpid(), 9)
    return inner(path, rebuild)
command.index_file = index_file
if __name__ == "__main__":
    from videodataset.cli import app
    app()
"""


@pytest.mark.parametrize("jobs", [1, 2])
def test_a_file_that_kills_its_worker_costs_no_other_file(tree: Path, tmp_path: Path, jobs: int) -> None:
    script = tmp_path / "command.py"
    script.write_text(DIES_ON_ONE_FILE)
    done = subprocess.run(
        [sys.executable, str(script), "index", str(tree), "--jobs", str(jobs), "--json"],
        check=False,
        capture_output=True,
        text=True,
        timeout=120,
    )
    assert done.returncode == 1
    assert "Traceback" not in done.stderr
    facts = json.loads(done.stdout)
    reasons = {Path(failure["path"]).name: failure["reason"] for failure in facts["failures"]}
    assert set(reasons) == {"hevc.mp4", "broken.mp4"}
    assert "died" in reasons["hevc.mp4"]
    assert facts["new"] + facts["current"] == 4


def workers_of(pid: int) -> set[int]:
    """The processes below one."""
    children = {int(each) for each in Path(f"/proc/{pid}/task/{pid}/children").read_text().split()}
    return children.union(*(workers_of(child) for child in children))


def running(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()[0] != "Z"
    except FileNotFoundError:
        return False


def start_on_many(root: Path, clip: ClipStore, index_dir: Path) -> subprocess.Popen[str]:
    """Start the command on 400 files, in a process group of its own, and wait until a few are indexed."""
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
    deadline = time.monotonic() + 180
    while not (index_dir.exists() and len(list(index_dir.glob("*.npz"))) >= 5):
        assert time.monotonic() < deadline
        assert process.poll() is None, "ended before it could be interrupted"
        time.sleep(0.01)
    return process


def assert_gone(pids: set[int]) -> None:
    deadline = time.monotonic() + 20
    while any(running(pid) for pid in pids):
        assert time.monotonic() < deadline, "a worker outlived the command"
        time.sleep(0.05)


@pytest.mark.parametrize("whole_group", [False, True], ids=["the command alone", "as a terminal does"])
def test_interrupted_and_gone_on_with(tmp_path: Path, clip: ClipStore, index_dir: Path, whole_group: bool) -> None:
    root = tmp_path / "many"
    process = start_on_many(root, clip, index_dir)
    workers = workers_of(process.pid)
    assert len(workers) >= 2
    (os.killpg if whole_group else os.kill)(process.pid, signal.SIGINT)
    out, errors = process.communicate(timeout=60)
    assert process.returncode == 130
    assert "Traceback" not in errors
    facts = json.loads(out)
    assert facts["interrupted"] is True
    assert_gone(workers)
    assert not list(index_dir.glob("*.tmp"))
    kept = len(list(index_dir.glob("*.npz")))
    assert 5 <= kept < 400
    code, facts, _ = run(root)
    assert (code, facts["current"], facts["new"]) == (0, kept, 400 - kept)


def test_ctrl_c_while_the_workers_start(tmp_path: Path, clip: ClipStore) -> None:
    for number in range(4):
        os.link(clip("h264"), tmp_path / f"{number}.mp4")
    process = subprocess.Popen(
        [*COMMAND, str(tmp_path), "--jobs", "2"], stderr=subprocess.PIPE, text=True, start_new_session=True
    )
    deadline = time.monotonic() + 180
    while len(workers_of(process.pid)) < 3:  # two workers and multiprocessing's resource tracker
        assert time.monotonic() < deadline
        assert process.poll() is None
        time.sleep(0.002)
    workers = workers_of(process.pid)
    os.killpg(process.pid, signal.SIGINT)
    _, errors = process.communicate(timeout=60)
    assert process.returncode == 130
    assert "Traceback" not in errors, errors
    assert_gone(workers)


def test_workers_do_not_outlive_a_killed_command(tmp_path: Path, clip: ClipStore, index_dir: Path) -> None:
    process = start_on_many(tmp_path / "many", clip, index_dir)
    workers = workers_of(process.pid)
    process.kill()
    process.communicate(timeout=60)
    assert_gone(workers)
