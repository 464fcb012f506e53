"""Reading headers bit by bit."""

from __future__ import annotations

import pytest

from videodataset.index.bitstream.bits import BitReader, TruncatedHeaderError


@pytest.mark.parametrize(
    ("bits", "ue", "se"),
    [("1", 0, 0), ("010", 1, 1), ("011", 2, -1), ("00100", 3, 2), ("00101", 4, -2), ("0001000", 7, 4)],
)
def test_exp_golomb(bits: str, ue: int, se: int) -> None:
    """ITU-T H.264 tables 9-2 and 9-3."""
    data = int(bits.ljust(8, "0"), 2).to_bytes(1, "big")
    assert BitReader(data).ue() == ue
    assert BitReader(data).se() == se


def test_reading_past_the_end() -> None:
    reader = BitReader(b"\xa5")
    assert (reader.u(4), reader.flag(), reader.u(3)) == (10, False, 5)
    with pytest.raises(TruncatedHeaderError):
        reader.u(1)
    with pytest.raises(TruncatedHeaderError):
        BitReader(bytes(8)).ue()
