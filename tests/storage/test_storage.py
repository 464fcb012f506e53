"""Bytes of every kind of source, by position."""

from __future__ import annotations

import io
import os
import random
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from outcome import answer_or_none
from videodataset.errors import UnreadableVideoError
from videodataset.storage import StorageFile, open_storage
from videodataset.storage.base import read_ranges

DATA = random.Random(3).randbytes(300_000)


@pytest.fixture
def path(tmp_path: Path) -> Path:
    """A file that holds DATA."""
    file = tmp_path / "data.bin"
    file.write_bytes(DATA)
    return file


KINDS: dict[str, Callable[[Path], Any]] = {
    "path": lambda path: path,
    "str": str,
    "bytes": lambda path: path.read_bytes(),
    "bytearray": lambda path: bytearray(path.read_bytes()),
    "memoryview": lambda path: memoryview(path.read_bytes()),
    "tensor": lambda path: torch.frombuffer(bytearray(path.read_bytes()), dtype=torch.uint8),
    "bytes_io": lambda path: io.BytesIO(path.read_bytes()),
}


@pytest.mark.parametrize("kind", KINDS)
def test_reads(kind: str, path: Path) -> None:
    storage = open_storage(KINDS[kind](path))
    assert storage.size_bytes == len(DATA)
    assert storage.name
    for offset, size_bytes in ((0, 10), (299_990, 10), (5, 0), (0, len(DATA)), (123_456, 70_000)):
        assert storage.read(offset, size_bytes) == DATA[offset : offset + size_bytes]


@pytest.mark.parametrize("kind", KINDS)
def test_end(kind: str, path: Path) -> None:
    """Fewer bytes only where the source ends."""
    storage = open_storage(KINDS[kind](path))
    assert storage.read(len(DATA) - 5, 100) == DATA[-5:]
    assert storage.read(len(DATA), 100) == b""
    assert storage.read(len(DATA) + 100, 100) == b""


@given(ranges=st.lists(st.tuples(st.integers(0, 300_100), st.integers(0, 90_000)), max_size=12))
def test_ranges(ranges: list[tuple[int, int]]) -> None:
    """In any order, overlapping, repeated, or beyond the end."""
    got = read_ranges(open_storage(DATA), ranges)
    assert [bytes(view) for view in got] == [DATA[offset : offset + size_bytes] for offset, size_bytes in ranges]


def test_near_ranges_are_one_read() -> None:
    calls = []

    class Counted:
        name, identity, size_bytes = "counted", None, len(DATA)

        def read(self, offset: int, size_bytes: int) -> bytes:
            calls.append((offset, size_bytes))
            return DATA[offset : offset + size_bytes]

    read_ranges(Counted(), [(0, 10), (2_000, 10), (100, 10)])
    assert calls == [(0, 2_010)]


def test_identity(path: Path) -> None:
    first = open_storage(path).identity
    assert first is not None
    assert first == open_storage(str(path)).identity
    os.utime(path, ns=(1, 1))
    assert open_storage(path).identity != first
    assert open_storage(DATA).identity is None


@pytest.mark.parametrize("change", ["append", "rewrite", "truncate"])
def test_changed_file_is_refused(change: str, path: Path) -> None:
    storage = open_storage(path)
    assert storage.read(0, 4) == DATA[:4]
    if change == "append":
        with path.open("ab") as file:
            file.write(b"more")
    elif change == "rewrite":
        path.write_bytes(DATA[::-1])
        os.utime(path, ns=(5, 5))
    else:
        os.truncate(path, 1000)
    with pytest.raises(UnreadableVideoError, match=str(path)):
        storage.read(0, 4)
    assert open_storage(path).read(0, 4) == path.read_bytes()[:4]


def test_replaced_file_gives_old_bytes_or_refuses(path: Path, tmp_path: Path) -> None:
    storage = open_storage(path)
    storage.read(0, 4)
    (tmp_path / "new").write_bytes(DATA[::-1])
    (tmp_path / "new").replace(path)
    assert answer_or_none(path, lambda: storage.read(0, 4)) in (DATA[:4], None)
    assert open_storage(path).read(0, 4) == DATA[::-1][:4]


def test_replaced_before_the_first_read(path: Path, tmp_path: Path) -> None:
    storage = open_storage(path)
    (tmp_path / "new").write_bytes(DATA[::-1])
    (tmp_path / "new").replace(path)
    with pytest.raises(UnreadableVideoError, match=str(path)):
        storage.read(0, 4)


@pytest.mark.parametrize("what", ["missing", "directory"])
def test_no_file(what: str, tmp_path: Path) -> None:
    path = tmp_path if what == "directory" else tmp_path / "missing.mp4"
    with pytest.raises(UnreadableVideoError, match=str(path)):
        open_storage(path)


@pytest.mark.parametrize("address", ["http://example.com/a.mp4", "s3://bucket/a.mp4"])
def test_addresses_are_not_files_yet(address: str) -> None:
    with pytest.raises(UnreadableVideoError, match=address):
        open_storage(address)


@pytest.mark.parametrize("source", [None, 5, 1.0, [b"a"], {"a": 1}])
def test_no_source(source: Any) -> None:
    with pytest.raises(TypeError):
        open_storage(source)


def test_file_that_cannot_seek() -> None:
    read_end, write_end = os.pipe()
    with os.fdopen(read_end, "rb") as pipe, os.fdopen(write_end, "wb"), pytest.raises(UnreadableVideoError):
        open_storage(pipe)


def test_closed_file(path: Path) -> None:
    with path.open("rb") as file:
        storage = open_storage(file)
    with pytest.raises(UnreadableVideoError, match=str(path)):
        storage.read(0, 4)


def test_threads(path: Path) -> None:
    """One file object, one path: reads at the same time do not mix."""
    with path.open("rb") as file:
        storages = [open_storage(file), open_storage(path)]
        start = threading.Barrier(8)

        def work(seed: int) -> bool:
            rng = random.Random(seed)
            start.wait()
            for _ in range(200):
                offset = rng.randrange(len(DATA))
                for storage in storages:
                    if storage.read(offset, 500) != DATA[offset : offset + 500]:
                        return False
            return True

        with ThreadPoolExecutor(8) as pool:
            assert all(pool.map(work, range(8)))


def test_few_files_stay_open(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("VIDEODATASET_MAX_OPEN_FILES", "10")
    before = len(os.listdir("/proc/self/fd"))
    storages = []
    for k in range(100):
        file = tmp_path / str(k)
        file.write_bytes(DATA[k : k + 10])
        storages.append(open_storage(file))
        assert storages[-1].read(0, 10) == DATA[k : k + 10]
    assert len(os.listdir("/proc/self/fd")) <= before + 12
    assert all(storage.read(0, 10) == DATA[k : k + 10] for k, storage in enumerate(storages))


@pytest.mark.parametrize("kind", ["path", "bytes", "bytes_io"])
def test_as_a_file(kind: str, path: Path) -> None:
    file = StorageFile(open_storage(KINDS[kind](path)))
    assert file.read(3) == DATA[:3]
    assert file.tell() == 3
    assert file.seek(-4, io.SEEK_END) == len(DATA) - 4
    assert file.read() == DATA[-4:]
    assert file.read(10) == b""
    assert file.seek(10) == 10
    assert file.seek(5, io.SEEK_CUR) == 15
    assert file.read(1) == DATA[15:16]
    assert file.seek(len(DATA) + 50) == len(DATA) + 50
    assert file.read(1) == b""
