"""Where NAL units begin and end."""

from __future__ import annotations

from videodataset.index.bitstream.nal import nal_units, payload_of


def test_nal_units() -> None:
    assert list(nal_units(b"\0\0\0\2ab\0\0\0\1c", 4)) == [(4, 6), (10, 11)]
    assert list(nal_units(b"\0\0\0\0\0\0\0\1c", 4)) == [(8, 9)], "lengths of zero hold no unit"
    assert list(nal_units(b"\0\0\0\xffab", 4)) == [(4, 6)], "cut at the end"
    assert list(nal_units(b"\0\0\0\1ab\0\0\1cd\0", 0)) == [(4, 6), (9, 11)]
    assert list(nal_units(b"", 0)) == list(nal_units(b"", 4)) == []
    assert payload_of(b"a\0\0\3\1b\0\0\3\0") == b"a\0\0\1b\0\0\0"
