"""The CPU engine's economy: how often each picture is fed to a codec."""

from __future__ import annotations

from collections import Counter
from typing import Any

import pytest

import videodataset as vd
from clips import ClipStore
from videodataset.decode.session import Session

REORDERED = [
    "h264",
    "h264_one_gop",
    "h264_open_gop_pyramid",
    "hevc_pyramid",
    "av1_hierarchical",
    "vp9",
    "mpeg4_b",
    "h264_ts",
]


@pytest.fixture
def fed(monkeypatch: pytest.MonkeyPatch) -> Counter[int]:
    """How often each picture has been fed."""
    count: Counter[int] = Counter()
    feed = Session.feed

    def counted(self: Session, picture: int, payloads: Any) -> None:
        count[picture] += 1
        feed(self, picture, payloads)

    monkeypatch.setattr(Session, "feed", counted)
    return count


@pytest.mark.parametrize("name", REORDERED)
@pytest.mark.parametrize("step", [1, 3])
def test_reading_on_feeds_each_picture_once_to_the_very_end(
    clip: ClipStore, name: str, step: int, fed: Counter[int]
) -> None:
    decoder = vd.VideoDecoder(clip(name), device="cpu")
    for start in range(0, len(decoder), step):
        decoder.get_frames_in_range(start, start + step)
    assert set(fed.values()) == {1}
    assert len(fed) >= len(decoder)
