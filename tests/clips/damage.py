"""Damaged and useless files, made from sound ones by changing bytes."""

from __future__ import annotations

import random
import struct
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from clips import mp4
from clips.encode import add_audio, open_output, read_packets, sine_packets

Find = Callable[[str], Path]


@dataclass(frozen=True)
class Damaged:
    """How to make one damaged file; `find` gives the path of a sound clip."""

    write: Callable[[Path, Find], None]
    suffix: str = "mp4"


def damaged_packets(name: str) -> list[int]:
    """Numbers, in file order, of the packets that `flipped` and `zero_hole` change."""
    return {"flipped": [13, 14, 15], "zero_hole": [20, 21]}[name]


def _with_packets_changed(path: Path, source: Path, which: list[int], change: Callable[[bytearray], None]) -> None:
    data = bytearray(source.read_bytes())
    packets = read_packets(source)
    for k in which:
        start, stop = packets[k].pos, packets[k].pos + packets[k].size
        payload = data[start:stop]
        change(payload)
        data[start:stop] = payload
    path.write_bytes(data)


def _flip(payload: bytearray) -> None:
    # The first bytes are the NAL unit's length and header: let them stand so that only the picture suffers.
    for k in range(len(payload) // 4, len(payload), 3):
        payload[k] ^= 0x5A


def _zero(payload: bytearray) -> None:
    payload[:] = bytes(len(payload))


def _flipped(path: Path, find: Find) -> None:
    _with_packets_changed(path, find("h264_g2"), damaged_packets("flipped"), _flip)


def _zero_hole(path: Path, find: Find) -> None:
    _with_packets_changed(path, find("h264_15b"), damaged_packets("zero_hole"), _zero)


def _truncated(path: Path, find: Find) -> None:
    data = find("h264_faststart").read_bytes()
    path.write_bytes(data[: len(data) * 6 // 10])


def _no_moov(path: Path, find: Find) -> None:
    data = bytearray(find("h264").read_bytes())
    for kind, start, _, end in list(mp4.boxes(bytes(data))):
        if kind == b"moov":
            path.write_bytes(data[:start] + data[end:])


def _cut_header(path: Path, find: Find) -> None:
    data = find("h264_faststart").read_bytes()
    _, end = mp4.find(data, "moov")
    path.write_bytes(data[: end // 2])


def _unknown_codec(path: Path, find: Find) -> None:
    path.write_bytes(find("h264").read_bytes())
    mp4.set_codec_tag(path, b"avc1", b"zzzz")


def _audio_only(path: Path, find: Find) -> None:
    with open_output(path) as out:
        stream = add_audio(out)
        for packet in sine_packets(stream, 1.0):
            out.mux(packet)


def _huge_box(path: Path, find: Find) -> None:
    path.write_bytes(
        struct.pack(">I4s4sI", 16, b"ftyp", b"isom", 512) + struct.pack(">I4s", 0xFFFFFFF0, b"moov") + bytes(64)
    )


def _holding(data: bytes) -> Damaged:
    return Damaged(lambda path, _: path.write_bytes(data) and None)


DAMAGED: dict[str, Damaged] = {
    "empty": _holding(b""),
    "garbage": _holding(random.Random(5).randbytes(20_000)),
    "zeros": _holding(bytes(20_000)),
    "text": _holding(b"version https://git-lfs.github.com/spec/v1\noid sha256:00\nsize 12345\n"),
    "no_moov": Damaged(_no_moov),
    "cut_header": Damaged(_cut_header),
    "huge_box": Damaged(_huge_box),
    "unknown_codec": Damaged(_unknown_codec),
    "audio_only": Damaged(_audio_only),
    "truncated": Damaged(_truncated),
    "flipped": Damaged(_flipped),
    "zero_hole": Damaged(_zero_hole),
}
