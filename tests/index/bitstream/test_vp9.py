"""VP9 superframes and frame headers (VP9 bitstream specification annex B, 6.2)."""

from __future__ import annotations

import pytest
from encoded_clips import bits

from videodataset.index.bitstream.packet_info import UNSURE
from videodataset.index.bitstream.vp9 import Vp9Parser

KEY = bits("10000" + "010", (0x498342, 24), (0, 16))
HIDDEN, SHOWN = bits("10000" + "100", (0, 16)), bits("10000" + "110", (0, 16))
EXISTING = bits("10001" + "00")


def superframe(*frames: bytes) -> bytes:
    marker = bytes([0xC0 | 1 << 3 | len(frames) - 1])
    return b"".join(frames) + marker + b"".join(len(f).to_bytes(2, "little") for f in frames) + marker


@pytest.mark.parametrize(
    ("data", "sync", "shown"),
    [
        (KEY, True, True),
        (SHOWN, False, True),
        (HIDDEN, False, False),
        (EXISTING, False, True),
        (superframe(HIDDEN, SHOWN), False, True),
        (superframe(KEY, HIDDEN), True, True),
        (superframe(HIDDEN), False, False),
        (superframe(HIDDEN, EXISTING), False, True),
        (superframe(b"", SHOWN), False, True),
        (bits("1011" + "0" + "0" + "010", (0x498342, 24)), True, True),  # profile 3 has a reserved bit
    ],
)
def test_packets(data: bytes, sync: bool, shown: bool) -> None:
    for key_hint in (False, True):
        info = Vp9Parser().packet(data, key_hint)
        assert (info.sync, info.shown, info.disposable, info.unsure) == (sync, shown, False, False)


@pytest.mark.parametrize(
    "data", [b"", b"\x80", b"\0\0\0", KEY.replace(b"\x49", b"\x48"), superframe(HIDDEN, SHOWN)[2:]]
)
def test_unsure(data: bytes) -> None:
    assert Vp9Parser().packet(data, True) is UNSURE
