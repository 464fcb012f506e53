"""The demo on small clips."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from clips import ClipStore
from videodataset.demo import find_clips, run_demo


def test_learns_and_measures(tmp_path: Path, clip: ClipStore) -> None:
    for name in ("h264", "h264_15b"):
        shutil.copy(clip(name), tmp_path)
    results = run_demo(tmp_path, steps=60, quiet=True)
    assert results.videos == 2
    assert results.frames > 60
    assert results.held_out_loss_after < results.held_out_loss_before
    assert 0 < results.waiting_for_data < 1
    assert results.ratio_to_pyav > 0
    assert set(results.as_dict()) >= {"held_out_loss_before", "frames_per_second", "ratio_to_pyav"}


def test_a_folder_without_videos_is_told(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError, match=r"no \.mp4"):
        find_clips(tmp_path)
