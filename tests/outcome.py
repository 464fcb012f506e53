"""Either an answer or a typed error, for tests that take both."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import TypeVar

import videodataset as vd

T = TypeVar("T")


def answer_or_none(path: Path, ask: Callable[[], T]) -> T | None:
    """Return the answer, or None for one of the library's own errors, which must name the path."""
    try:
        return ask()
    except vd.VideoDatasetError as error:
        message = str(error)
    assert str(path) in message
    return None
