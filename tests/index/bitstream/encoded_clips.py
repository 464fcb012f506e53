"""Small clips encoded in memory, and what FFmpeg's decoder makes of their packets."""

from __future__ import annotations

import hashlib
import io
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cache
from typing import Any

import av
import numpy as np
from av.video.frame import PictureType

from videodataset.index.bitstream import PacketInfo, make_parser

WIDTH, HEIGHT = 96, 64


@dataclass(frozen=True)
class Clip:
    codec: str
    extradata: bytes
    intra_only: bool
    packets: tuple[bytes, ...]
    key_hints: tuple[bool, ...]

    def parser(self) -> Any:
        parser = make_parser(self.codec, self.extradata, self.intra_only)
        assert parser is not None
        return parser

    def infos(self) -> list[PacketInfo]:
        parser = self.parser()
        return [parser.packet(data, key) for data, key in zip(self.packets, self.key_hints, strict=True)]


@dataclass(frozen=True)
class Decoded:
    number: int  # of the packet it came from
    kind: str  # I, P, B, ...
    digest: str


def _picture(number: int) -> np.ndarray[Any, Any]:
    picture = np.zeros((HEIGHT, WIDTH, 3), np.uint8)
    picture[..., 0] = np.add.outer(np.arange(HEIGHT) * 2, np.arange(WIDTH) * 3 + 5 * number) % 256
    picture[..., 1] = 2 * number % 256
    picture[16:40, (3 * number) % 64 : (3 * number) % 64 + 24, 2] = 220
    return picture


@cache
def encode(
    encoder: str,
    container: str,
    options: tuple[tuple[str, str], ...] = (),
    gop: int = 12,
    b_frames: int | None = None,
    pixel_format: str = "yuv420p",
    count: int = 36,
) -> Clip:
    file = io.BytesIO()
    with av.open(file, "w", format=container) as out:
        stream = out.add_stream(encoder, rate=25, options=dict(options))
        stream.width, stream.height, stream.pix_fmt = WIDTH, HEIGHT, pixel_format
        stream.codec_context.gop_size = gop
        stream.codec_context.thread_count = 1
        if encoder == "mjpeg":
            stream.codec_context.color_range = 2
        if b_frames is not None:
            stream.codec_context.max_b_frames = b_frames
        for number in range(count):
            frame = av.VideoFrame.from_ndarray(_picture(number), format="rgb24").reformat(format=pixel_format)
            frame.pict_type = PictureType.NONE
            out.mux(stream.encode(frame))
        out.mux(stream.encode(None))
    file.seek(0)
    with av.open(file) as source:
        stream = source.streams.video[0]
        packets = [packet for packet in source.demux(stream) if packet.size]
        context = stream.codec_context
        return Clip(
            context.codec.canonical_name,
            context.extradata or b"",
            context.codec.intra_only,
            tuple(bytes(packet) for packet in packets),
            tuple(packet.is_keyframe for packet in packets),
        )


def decode(clip: Clip, numbers: Iterable[int] | None = None, packets: Sequence[bytes] = ()) -> list[Decoded]:
    """Feed packets to a fresh decoder; the frames in the order they come out."""
    context: Any = av.CodecContext.create("libdav1d" if clip.codec == "av1" else clip.codec, "r")
    context.extradata = clip.extradata or None
    context.thread_count = 1
    packets = packets or clip.packets
    out = []
    for number in [*(range(len(packets)) if numbers is None else numbers), None]:
        packet = None
        if number is not None:
            packet = av.Packet(packets[number])
            packet.pts = packet.dts = number
        for frame in context.decode(packet):
            digest = hashlib.md5(frame.to_ndarray().tobytes()).hexdigest()
            # PyAV 18 gives the picture type as an int, older ones as a PictureType.
            out.append(Decoded(frame.pts, PictureType(frame.pict_type).name, digest))
    return out


def by_order(infos: Sequence[PacketInfo]) -> list[int]:
    """Numbers of the shown pictures, sorted by `order`."""
    shown = [k for k, info in enumerate(infos) if info.shown]
    return sorted(shown, key=lambda k: infos[k].order or (-1, -1))


def bits(*fields: tuple[int, int] | str) -> bytes:
    """Pack (value, width) fields and strings of 0 and 1; the last byte is filled with a 1 and zeros."""
    text = "".join(field if isinstance(field, str) else f"{field[0]:0{field[1]}b}" for field in fields) + "1"
    text += "0" * (-len(text) % 8)
    return int(text, 2).to_bytes(len(text) // 8, "big")


def ue(value: int) -> str:
    """Exp-Golomb code (H.264 9.1)."""
    code = f"{value + 1:b}"
    return "0" * (len(code) - 1) + code


def se(value: int) -> str:
    """Signed Exp-Golomb code (H.264 9.1.1)."""
    return ue(2 * value - 1 if value > 0 else -2 * value)
