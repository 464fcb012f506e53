"""References in columns: cheap to send between processes, and to look up together."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from videodataset.data.frame_ref import FrameRef, Options
from videodataset.storage import Source


class RefColumns:
    """What several references ask for.

    Args:
        refs: the references.

    Attributes:
        sources: the different sources, each with its stretch (offset, size) in bytes or None.
        options: the different options.
        source_of: int32 (n,), per reference: which source.
        option_of: int32 (n,), per reference: which options.
        by_time: bool (n,), per reference: whether it asks by time.
        lengths: int64 (n,), per reference: how many frames; -1 is one without a leading dimension.
        numbers: int64, frame numbers of all references one after another; times stand there by their bits.
    """

    __slots__ = ("by_time", "lengths", "numbers", "option_of", "options", "source_of", "sources")

    def __init__(self, refs: Sequence[FrameRef]) -> None:
        sources: dict[Any, int] = {}
        options: dict[Options, int] = {}
        self.sources: list[tuple[Source, tuple[int, int] | None]] = []
        source_of, option_of = [], []
        last: Options | None = None  # hashing options costs more than all else here, and most are the same object
        option = 0
        for ref in refs:
            key = (ref.source if isinstance(ref.source, str) else id(ref.source), ref.byte_range)
            source_of.append(sources.setdefault(key, len(sources)))
            if len(self.sources) < len(sources):
                self.sources.append((ref.source, ref.byte_range))
            if ref.options is not last:
                last, option = ref.options, options.setdefault(ref.options, len(options))
            option_of.append(option)
        self.options = list(options)
        self.source_of, self.option_of = np.array(source_of, np.int32), np.array(option_of, np.int32)
        self.by_time = np.array([ref.by_time for ref in refs], bool)
        self.lengths = np.array([-1 if ref.is_single else len(ref.numbers) for ref in refs], np.int64)
        columns = [ref.numbers.reshape(-1).view(np.int64) for ref in refs]
        self.numbers: npt.NDArray[np.int64] = np.concatenate(columns) if columns else np.empty(0, np.int64)

    def __len__(self) -> int:
        return len(self.lengths)

    @property
    def frames(self) -> int:
        """How many frames they ask for."""
        return len(self.numbers)

    def refs(self) -> list[FrameRef]:
        """Return the references."""
        out, at = [], 0
        for k, length in enumerate(self.lengths.tolist()):
            count = abs(length)
            values: npt.NDArray[Any] = self.numbers[at : at + count]
            at += count
            if self.by_time[k]:
                values = values.view(np.float64)
            ref = FrameRef.__new__(FrameRef)
            ref.source, ref.byte_range = self.sources[self.source_of[k]]
            ref.options, ref.numbers = self.options[self.option_of[k]], values.reshape(()) if length < 0 else values
            out.append(ref)
        return out

    def __reduce__(self) -> tuple[Any, ...]:
        return _unpickled, tuple(getattr(self, name) for name in self.__slots__)


def _unpickled(*values: Any) -> RefColumns:
    columns = RefColumns.__new__(RefColumns)
    for name, value in zip(RefColumns.__slots__, values, strict=True):
        setattr(columns, name, value)
    return columns
