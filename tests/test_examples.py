"""Every example runs as its first lines say, and does what it shows."""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from clips import ClipStore

EXAMPLES = Path(__file__).parents[1] / "examples"
pytestmark = [
    pytest.mark.timeout(280),
    pytest.mark.skipif(not EXAMPLES.is_dir(), reason="the examples are not beside the tests here"),
]


@pytest.fixture
def folder(clip: ClipStore, tmp_path: Path) -> Path:
    for name in ("h264_15b", "h264_one_gop"):
        shutil.copy(clip(name), tmp_path / f"{name}.mp4")
    return tmp_path


def run(*arguments: str | Path) -> str:
    done = subprocess.run(
        [sys.executable, *map(str, arguments)],
        check=False,
        capture_output=True,
        text=True,
        timeout=200,
        cwd=EXAMPLES.parent,
    )
    assert done.returncode == 0, done.stdout[-1000:] + done.stderr[-3000:]
    return done.stdout


def test_all_of_them_are_run_and_listed() -> None:
    files = {path.name for path in EXAMPLES.glob("*.py")}
    run_here = set(re.findall(r'EXAMPLES / "(\w+\.py)"', Path(__file__).read_text()))
    listed = set(re.findall(r"\]\((\w+\.py)\)", (EXAMPLES / "README.md").read_text()))
    assert files == run_here == listed


def test_vit(folder: Path) -> None:
    out = run(EXAMPLES / "vit.py", folder, "--steps", "20")
    assert re.search(r"^step 20: loss \d\.\d{3}; [\d,]+ frames/s, waiting [\d.]+%, [\d.]+ pictures/frame", out)


def losses(out: str) -> dict[int, str]:
    return {int(step): loss for step, loss in re.findall(r"^step (\d+): ([\d.]+)$", out, re.MULTILINE)}


def test_resume(folder: Path, tmp_path: Path) -> None:
    """Stopped in the first epoch and in the second: the losses are those of a run that was never stopped."""
    script = EXAMPLES / "resume.py"
    whole = losses(run(script, folder, "--checkpoint", tmp_path / "whole.pt", "--steps", "18"))
    assert sorted(whole) == list(range(1, 19))
    for stop, begin in ((7, 1), (17, 6), (None, 16)):
        arguments = ["--stop-at", str(stop)] if stop else []
        out = run(script, folder, "--checkpoint", tmp_path / "parts.pt", "--steps", "18", *arguments)
        part = losses(out)
        assert sorted(part) == list(range(begin, (stop or 18) + 1))
        assert part.items() <= whole.items()


def test_ddp(folder: Path) -> None:
    options = ["--standalone", "--nproc-per-node", "2"]
    out = run("-m", "torch.distributed.run", *options, EXAMPLES / "ddp.py", folder, "--steps", "3")
    told = re.findall(r"rank (\d), epoch (\d): loss \d\.\d{3} on", out)
    assert sorted(told) == [(rank, epoch) for rank in "01" for epoch in "01"]


@pytest.mark.parametrize("form", ["torchcodec", "one-line", "references"])
def test_from_torchcodec(folder: Path, form: str) -> None:
    if form == "torchcodec":
        pytest.importorskip("torchcodec", exc_type=(ImportError, RuntimeError))
    out = run(EXAMPLES / "from_torchcodec.py", folder, form)
    frames, level = re.findall(r"^(\d+) frames, mean level ([\d.]+), \d+ frames/s$", out)[0]
    want = run(EXAMPLES / "from_torchcodec.py", folder, "one-line")
    assert (frames, float(level)) == (
        re.findall(r"^\d+", want)[0],
        pytest.approx(float(re.findall(r"level ([\d.]+)", want)[0]), abs=0.2),
    )
