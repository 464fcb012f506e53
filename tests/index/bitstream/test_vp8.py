"""VP8 frame tags (RFC 6386 9.1)."""

from __future__ import annotations

import pytest
from encoded_clips import decode, encode

from videodataset.index.bitstream.packet_info import UNSURE
from videodataset.index.bitstream.vp8 import Vp8Parser


def test_hidden_frames_give_no_frame() -> None:
    """libvpx hides frames in two passes only; here the show bit of some is cleared."""
    clip = encode("libvpx", "webm", (("cpu-used", "8"), ("deadline", "realtime")))
    hidden = {3, 4, 20}
    packets = [bytes([p[0] & 0xEF]) + p[1:] if k in hidden else p for k, p in enumerate(clip.packets)]
    infos = [Vp8Parser().packet(data, False) for data in packets]
    assert {k for k, info in enumerate(infos) if not info.shown} == hidden
    assert {frame.number for frame in decode(clip, packets=packets)} == set(range(len(packets))) - hidden
    assert not any(info.disposable for info in infos)


@pytest.mark.parametrize("data", [b"", b"\0\0", b"\x10\0\0\x9d\x01\x2b"])
def test_unsure(data: bytes) -> None:
    assert Vp8Parser().packet(data, True) is UNSURE
