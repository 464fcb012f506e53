"""Tables of where samples lie, and those of data sets made of others."""

from __future__ import annotations

from typing import Any

import pytest
from torch.utils.data import ConcatDataset, Dataset, Subset

import videodataset as vd
from videodataset.data.frame_table import frame_table_of


class Rows(Dataset[Any]):
    def __init__(self, paths: list[str], rows: list[tuple[int, int, int]], extra: int = 0) -> None:
        self.paths, self.rows, self.extra = paths, rows, extra

    def __len__(self) -> int:
        return len(self.rows) + self.extra

    def __getitem__(self, i: int) -> Any:
        return self.rows[i]

    def frame_table(self) -> vd.FrameTable:
        return vd.FrameTable(self.paths, *zip(*self.rows, strict=True))


def rows_of(table: vd.FrameTable) -> list[tuple[str, int, int]]:
    video, first, length = (column.tolist() for column in table.columns)
    return [(table.paths[v], f, n) for v, f, n in zip(video, first, length, strict=True)]


def test_data_sets_made_of_others() -> None:
    one = Rows(["a", "b"], [(0, 5, 1), (1, 0, 8), (0, 9, 2)])
    two = Rows(["b", "c"], [(1, 1, 1), (0, 2, 2)])
    assert rows_of(frame_table_of(one)) == [("a", 5, 1), ("b", 0, 8), ("a", 9, 2)]
    assert rows_of(frame_table_of(Subset(one, [2, 1]))) == [("a", 9, 2), ("b", 0, 8)]
    both: Any = ConcatDataset([Subset(one, [1]), two])
    assert rows_of(frame_table_of(both)) == [("b", 0, 8), ("c", 1, 1), ("b", 2, 2)]
    assert rows_of(frame_table_of(Subset(both, [2, 0]))) == [("b", 2, 2), ("b", 0, 8)]
    assert list(frame_table_of(both).paths).count("b") == 1, "GOPs of one file are not taken for those of two"


@pytest.mark.parametrize(
    ("paths", "columns", "message"),
    [
        (["a"], ([0], [0, 1], [1]), "equally long"),
        (["a"], ([1], [0], [1]), "video numbers"),
        (["a"], ([-1], [0], [1]), "video numbers"),
        (["a"], ([0], [-1], [1]), "at least"),
        (["a"], ([0], [0], [0]), "at least"),
    ],
)
def test_tables_that_cannot_be(paths: list[str], columns: tuple[list[int], ...], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        vd.FrameTable(paths, *columns)


def test_data_sets_without_a_table() -> None:
    with pytest.raises(TypeError, match=r"list has no frame_table\(\)"):
        frame_table_of([1, 2])
    with pytest.raises(ValueError, match="1 rows for 2 samples"):
        frame_table_of(Rows(["a"], [(0, 0, 1)], extra=1))
