"""What goes wrong in a run ends it within seconds, with an error that says what, and leaves no process behind."""

from __future__ import annotations

import errno
import os
import shutil
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from torch.utils.data import Dataset

import videodataset as vd
from clips import ClipStore
from processes import children, wait_until_gone
from videodataset.index import saved

pytestmark = pytest.mark.timeout(120)
LONGEST_S = 10


class Frames(Dataset[Any], vd.BaseVideoDataset):
    def __init__(self, path: str, bad: int = -1) -> None:
        self.path, self.bad = path, bad

    def __len__(self) -> int:
        return 4000

    def __getitem__(self, i: int) -> Any:
        if i == self.bad:
            raise KeyError(f"no row {i}")
        return {"image": self.frames(self.path, i % 40), "number": i}


@pytest.fixture
def path(clip: ClipStore, tmp_path: Path) -> Iterator[str]:
    before = children()
    yield str(shutil.copy(clip("h264_15b"), tmp_path / "clip.mp4"))
    wait_until_gone(children() - before)


def seen_until_the_end(loader: vd.DataLoader, then: Any) -> tuple[list[int], Exception, float]:
    """The samples that came, the error behind them, and how long that took after `then` was called."""
    seen: list[int] = []
    began = time.monotonic()
    try:
        for k, batch in enumerate(loader):
            seen += batch["number"].tolist()
            if k == 2:
                began = time.monotonic()
                then()
    except Exception as error:
        return seen, error.with_traceback(None), time.monotonic() - began
    raise AssertionError("the loop came to its end")


@pytest.mark.parametrize("workers", [0, 2])
def test_exception_in_users_code(path: str, device: str, workers: int) -> None:
    loader = vd.DataLoader(Frames(path, bad=42), batch_size=4, num_workers=workers, device=device)
    seen, error, seconds = seen_until_the_end(loader, lambda: None)
    assert isinstance(error, KeyError)
    assert "no row 42" in str(error)
    assert seen == list(range(40)), "all batches before it"
    assert seconds < LONGEST_S


@pytest.mark.parametrize("workers", [0, 2])
@pytest.mark.parametrize("how", ["deleted", "replaced"])
def test_file_that_goes_away(path: str, device: str, workers: int, how: str) -> None:
    """Told, or the whole epoch right: a file still open may be read on."""

    def spoil() -> None:
        Path(path).unlink()
        if how == "replaced":
            Path(path).write_bytes(b"something else" * 1000)

    loader = vd.DataLoader(Frames(path), batch_size=4, num_workers=workers, device=device)
    seen, error, seconds = seen_until_the_end(loader, spoil)
    assert isinstance(error, vd.UnreadableVideoError)
    assert path in str(error)
    assert seen == list(range(len(seen)))
    assert 12 <= len(seen) < 4000
    assert seconds < LONGEST_S


def test_disk_full_for_saved_indexes(
    path: str, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture, device: str
) -> None:
    """Logged, and the frames come: the index is built at every opening."""

    def full(*_: Any, **__: Any) -> Any:
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(saved.np, "savez", full)
    batch = next(iter(vd.DataLoader(Frames(path), batch_size=4, device=device)))
    assert batch["number"].tolist() == [0, 1, 2, 3]
    assert "No space left on device" in caplog.text
    assert not list(saved_files()), "no half of a file is left"


def saved_files() -> Iterator[Path]:
    return (each for each in Path(os.environ["VIDEODATASET_INDEX_DIR"]).rglob("*") if each.is_file())
