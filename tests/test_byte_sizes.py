"""Numbers of bytes as people write them."""

from __future__ import annotations

import pytest

from videodataset.byte_sizes import parse_bytes


@pytest.mark.parametrize(
    ("value", "size"),
    [(7, 7), ("2GiB", 2**31), ("1.5 gib", 3 * 2**29), ("500MB", 500_000_000), ("3k", 3000), ("4KiB", 4096), ("9", 9)],
)
def test_numbers_of_bytes(value: int | str, size: int) -> None:
    assert parse_bytes(value) == size


@pytest.mark.parametrize("value", [0, -1, "", "GiB", "two GiB", "1 XiB", "1I", "0.1"])
def test_what_is_no_number_of_bytes(value: int | str) -> None:
    with pytest.raises(ValueError, match="number of bytes above zero"):
        parse_bytes(value)
