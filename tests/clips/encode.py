"""Encode drawn pictures with PyAV, one thread, same bytes every time on one build."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from fractions import Fraction
from pathlib import Path
from typing import Any

import av
import numpy as np

from clips.draw import draw

os.environ.setdefault("SVT_LOG", "1")  # SVT-AV1 otherwise prints a page per clip

X264 = "threads=1:lookahead-threads=1:sliced-threads=0:scenecut=0:"
X265 = "pools=none:frame-threads=1:wpp=0:scenecut=0:log-level=none:info=0:"


def x264(params: str = "", **options: str) -> dict[str, str]:
    """Options of libx264."""
    return {"preset": "medium", "crf": "24", "x264-params": X264 + params, **options}


def x265(params: str = "", **options: str) -> dict[str, str]:
    """Options of libx265."""
    return {"preset": "fast", "crf": "26", "x265-params": X265 + params, **options}


def oriented_for_coding(picture: np.ndarray, rotation: int, mirror: bool) -> np.ndarray:
    """Undo the display matrix: mirror left-right, then turn `rotation` degrees clockwise, is what a player does."""
    picture = np.rot90(picture, rotation // 90)
    return np.ascontiguousarray(picture[:, ::-1] if mirror else picture)


def pictures(
    count: int,
    width: int,
    height: int,
    *,
    first: int = 0,
    interlaced: bool = False,
    rotation: int = 0,
    mirror: bool = False,
) -> Iterator[np.ndarray]:
    """Pictures `first` .. `first + count - 1`; `width` and `height` are the displayed size."""
    for number in range(first, first + count):
        picture = draw(number, width, height)
        if interlaced:
            picture = draw(number, width, height, 2 * number)
            picture[1::2] = draw(number, width, height, 2 * number + 1)[1::2]
        yield oriented_for_coding(picture, rotation, mirror)


def add_video(
    out: Any,
    codec: str,
    options: Mapping[str, str],
    size: tuple[int, int],
    pix_fmt: str,
    time_base: Fraction,
    settings: Mapping[str, Any] | None = None,
) -> Any:
    """Add a video stream; `settings` are attributes of the codec context, such as gop_size or colorspace."""
    stream = out.add_stream(codec, rate=25, options=dict(options))
    stream.width, stream.height, stream.pix_fmt = *size, pix_fmt
    context = stream.codec_context
    stream.time_base = context.time_base = time_base
    context.thread_count = 1
    for key, value in (settings or {}).items():
        setattr(context, key, value)
    return stream


def encode_into(
    stream: Any,
    frames: Iterator[np.ndarray],
    pts: Sequence[int],
    time_base: Fraction,
    *,
    prepare: Callable[[int, Any], None] | None = None,
) -> list[Any]:
    """Return the packets of `frames`; `prepare` may change a frame before it is encoded."""
    packets: list[Any] = []
    for number, (picture, ticks) in enumerate(zip(frames, pts, strict=True)):
        frame = av.VideoFrame.from_ndarray(picture, format="rgb24").reformat(format=stream.pix_fmt)
        frame.pts, frame.time_base = ticks, time_base
        if prepare is not None:
            prepare(number, frame)
        packets += stream.encode(frame)
    return packets + stream.encode(None)


def open_output(path: Path, mux_options: Mapping[str, str] | None = None, container: str | None = None) -> Any:
    """Open a container for writing, without the marks of the build that writes it."""
    return av.open(str(path), "w", format=container, options={"fflags": "+bitexact", **(mux_options or {})})


def read_packets(path: Path, index: int = 0) -> list[Any]:
    """Return the packets of one stream in file order."""
    with av.open(str(path)) as source:
        return [packet for packet in source.demux(source.streams[index]) if packet.size]


def remux(
    source_path: Path,
    out_path: Path,
    choose: Callable[[list[Any]], list[Any]] = lambda packets: packets,
    *,
    shift: int = 0,
    mux_options: Mapping[str, str] | None = None,
    container: str | None = None,
) -> None:
    """Copy the packets of the first video stream that `choose` keeps, their times moved by `shift` ticks."""
    with av.open(str(source_path)) as source, open_output(out_path, mux_options, container) as out:
        video = source.streams.video[0]
        stream = out.add_stream_from_template(video)
        for packet in choose([packet for packet in source.demux(video) if packet.size]):
            packet.pts, packet.dts, packet.stream = packet.pts + shift, packet.dts + shift, stream
            out.mux(packet)


def add_audio(out: Any) -> Any:
    """Add a mono AAC stream."""
    return out.add_stream("aac", rate=16000, layout="mono")


def sine_packets(stream: Any, seconds: float) -> list[Any]:
    """Return the packets of a tone."""
    packets: list[Any] = []
    for start in range(0, int(16000 * seconds), 1024):
        wave = 0.3 * np.sin(2 * np.pi * 440 * np.arange(start, start + 1024) / 16000)
        frame = av.AudioFrame.from_ndarray(wave.astype(np.float32)[None], format="fltp", layout="mono")
        frame.sample_rate, frame.pts, frame.time_base = 16000, start, Fraction(1, 16000)
        packets += stream.encode(frame)
    return packets + stream.encode(None)
