"""Fixtures shared by all tests."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
import torch

sys.path.insert(0, str(Path(__file__).parent))  # so that `clips` and `reference` import under every import mode

from clips import ClipStore
from reference import Reference, decode_all


@pytest.fixture(scope="session")
def shared_tmp(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """One folder for the whole session, the same for all xdist workers."""
    base = tmp_path_factory.getbasetemp()
    return base.parent if "PYTEST_XDIST_WORKER" in os.environ else base


@pytest.fixture(scope="session")
def clip(shared_tmp: Path) -> ClipStore:
    """Name of a clip -> path of it."""
    return ClipStore(shared_tmp / "clips")


@pytest.fixture(scope="session")
def reference(clip: ClipStore) -> Iterator[Reference]:
    """Name of a clip -> all its frames, decoded in order by PyAV."""
    yield Reference(clip)
    decode_all.cache_clear()


@pytest.fixture(params=["cpu", "cuda"])
def device(request: pytest.FixtureRequest) -> str:
    """Every device; CUDA is skipped where there is none, unless VIDEODATASET_REQUIRE_GPU=1."""
    name: str = request.param
    if name == "cuda":
        require_cuda()
    return name


def require_cuda() -> None:
    """Skip where there is no CUDA, unless VIDEODATASET_REQUIRE_GPU=1: then fail."""
    if not torch.cuda.is_available():
        if os.environ.get("VIDEODATASET_REQUIRE_GPU") == "1":
            pytest.fail("VIDEODATASET_REQUIRE_GPU=1, but torch.cuda.is_available() is False")
        pytest.skip("no CUDA here")


@pytest.fixture(autouse=True)
def index_dir(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Saved indexes go to a folder of the test's own."""
    folder = tmp_path / "index"
    monkeypatch.setenv("VIDEODATASET_INDEX_DIR", str(folder))
    return folder
