"""Saved indexes: reloaded whole, made again when stale or damaged, harmless when they cannot be written."""

from __future__ import annotations

import logging
import os
import shutil
from dataclasses import fields
from pathlib import Path

import numpy as np
import pytest

from clips import CLIPS, ClipStore
from videodataset.index import VideoIndex, build_index, load_or_build, saved_index_is_current
from videodataset.index import saved as saved_module


def assert_same(a: VideoIndex, b: VideoIndex) -> None:
    for field in fields(VideoIndex):
        left, right = getattr(a, field.name), getattr(b, field.name)
        if isinstance(left, np.ndarray):
            assert left.dtype == right.dtype
            assert np.array_equal(left, right), field.name
        else:
            assert left == right, field.name


@pytest.fixture
def builds(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Names of the sources that were indexed anew."""
    names: list[str] = []

    def counted(storage: object, **options: object) -> VideoIndex:
        names.append(storage.name)  # type: ignore[attr-defined]
        return build_index(storage, **options)  # type: ignore[arg-type]

    monkeypatch.setattr(saved_module, "build_index", counted)
    return names


@pytest.mark.parametrize("name", CLIPS)
def test_reloaded_is_what_was_built(name: str, clip: ClipStore, builds: list[str]) -> None:
    path = clip(name)
    first = load_or_build(path)
    assert_same(first, load_or_build(path))
    assert len(builds) == 1
    assert saved_index_is_current(path)


def test_stale_when_the_file_changes(tmp_path: Path, clip: ClipStore, builds: list[str]) -> None:
    path = tmp_path / "v.mp4"
    shutil.copy(clip("h264"), path)
    load_or_build(path)
    shutil.copy(clip("hevc"), path)
    assert not saved_index_is_current(path)
    assert load_or_build(path).info.codec == "hevc"
    status = path.stat()
    os.utime(path, ns=(status.st_atime_ns, status.st_mtime_ns + 1))
    assert not saved_index_is_current(path)
    load_or_build(path)
    assert len(builds) == 3


@pytest.mark.parametrize("damage", ["empty", "cut", "flipped", "text", "version"])
def test_damaged_is_made_again(
    damage: str, clip: ClipStore, index_dir: Path, builds: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    path = clip("h264")
    first = load_or_build(path)
    (file,) = index_dir.iterdir()
    data = bytearray(file.read_bytes())
    if damage == "version":
        monkeypatch.setattr(saved_module, "VERSION", saved_module.VERSION + 1)
    else:
        middle = len(data) // 2
        data[middle] ^= 0xFF
        file.write_bytes({"empty": b"", "cut": bytes(data[:middle]), "flipped": bytes(data), "text": b"hello"}[damage])
    assert_same(first, load_or_build(path))
    assert len(builds) == 2
    load_or_build(path)
    assert len(builds) == 2


def test_a_folder_that_cannot_be_written_only_costs_time(
    tmp_path: Path, clip: ClipStore, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    (tmp_path / "file").write_text("")
    monkeypatch.setenv("VIDEODATASET_INDEX_DIR", str(tmp_path / "file" / "folder"))
    with caplog.at_level(logging.WARNING):
        assert len(load_or_build(clip("h264"))) == CLIPS["h264"].count
    assert "cannot be saved" in caplog.text


def test_rebuild(clip: ClipStore, builds: list[str]) -> None:
    load_or_build(clip("h264"))
    load_or_build(clip("h264"), rebuild=True)
    assert len(builds) == 2


def test_bytes_have_no_saved_index(clip: ClipStore, index_dir: Path) -> None:
    assert len(load_or_build(clip("h264").read_bytes())) == CLIPS["h264"].count
    assert not index_dir.exists()
