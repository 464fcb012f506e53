"""Read a container once, from its first packet to its last, and write down what decoding any frame will need."""

from __future__ import annotations

import math
import zlib
from array import array
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from fractions import Fraction
from typing import Any

import av
import numpy as np

from videodataset.errors import NoVideoStreamError, UnreadableVideoError, UnsupportedVideoError, VideoDatasetError
from videodataset.index.bitstream import PacketInfo, Parser, make_parser
from videodataset.index.locate import PacketLocator
from videodataset.index.model import (
    DAMAGED,
    DISCARD,
    DISPOSABLE,
    HIDDEN,
    LEADING,
    NO_TIME,
    SYNC,
    Int64Array,
    Orientation,
    StreamInfo,
    VideoIndex,
)
from videodataset.index.order import mark_leading, presentation_order, start_pictures
from videodataset.storage import Source, Storage, StorageFile, open_storage

#: The first frame is decoded for its size, pixel format and display matrix; a stream that gives none by then is
#: described by its header.
_PROBE_PACKETS = 300
#: Titles in some other encoding are no reason to refuse a video. PyAV 19 has no such option and refuses none.
_OPEN_OPTIONS: dict[str, Any] = {"metadata_errors": "replace"} if int(av.__version__.split(".")[0]) < 19 else {}
_DEFAULT_FPS = Fraction(25)  # FFmpeg's rate for raw streams that say nothing
#: Codecs whose pictures before a sync picture may need what came before it, without saying so themselves.
_OPEN_GOP_BY_ORDER = ("h264", "mpeg4")


def build_index(source: Source, *, stream_index: int | None = None) -> VideoIndex:
    """Index one video stream of a source.

    Args:
        source: path, bytes, 1-D uint8 tensor, file-like object, or storage.
        stream_index: which stream of the container; None takes FFmpeg's best video stream.

    Raises:
        UnreadableVideoError: no container FFmpeg knows, or it cannot be read.
        NoVideoStreamError: no video stream, or `stream_index` is not one.
        UnsupportedVideoError: a codec that cannot be indexed.
    """
    storage = open_storage(source)
    if storage.size_bytes == 0:
        raise UnreadableVideoError(f"{storage.name}: is empty (0 bytes). Fetch or write it again.")
    index, promised_end = _read(storage, stream_index, 0)
    if promised_end > storage.size_bytes:
        # Cut short behind its header: list the lost pictures too, so that every frame keeps its number.
        index, _ = _read(storage, stream_index, promised_end)
    return index


def _read(storage: Storage, stream_index: int | None, padded_size_bytes: int) -> tuple[VideoIndex, int]:
    """Return the index, and where the last packet ends that the container's own table promises (0 without a table)."""
    with open_container(storage, padded_size_bytes) as container:
        stream = _choose_stream(container, stream_index, storage.name)
        pass_ = _Pass(storage, stream)
        try:
            for packet in container.demux(stream):
                if packet.size:
                    pass_.add(packet)
        except av.error.FFmpegError as error:
            # What came before the damage is there to be used; what did not come is counted out.
            if not len(pass_.pictures):
                raise UnreadableVideoError(f"{storage.name}: no packet can be read: {error}.") from error
        has_table = "mp4" in container.format.name.split(",")
        ends = (entry.pos + entry.size for entry in stream.index_entries) if has_table else ()
        return pass_.finish(container), max(ends, default=0)


@contextmanager
def open_container(storage: Storage, padded_size_bytes: int = 0) -> Iterator[Any]:
    """Open FFmpeg's demuxer over a storage; see `StorageFile` for the padding.

    Raises:
        UnreadableVideoError: FFmpeg finds no container in it.
    """
    file = StorageFile(storage, padded_size_bytes)
    try:
        container = av.open(file, mode="r", **_OPEN_OPTIONS)
    except VideoDatasetError:
        raise
    except (av.error.FFmpegError, ValueError) as error:
        raise UnreadableVideoError(
            f"{storage.name}: FFmpeg finds no readable container in its {storage.size_bytes} bytes ({error}). "
            f"It may be cut short or no video; fetch it again."
        ) from error
    with container:
        yield container


def _choose_stream(container: Any, stream_index: int | None, name: str) -> Any:
    if not len(container.streams):
        raise UnreadableVideoError(
            f"{name}: its container holds no stream at all. It may be cut short; fetch it again."
        )
    videos = [s for s in container.streams if s.type == "video"]
    if stream_index is None:
        stream = container.streams.best("video")
        if stream is None and videos:
            stream = videos[0]
        if stream is None:
            kinds = ", ".join(sorted({s.type for s in container.streams})) or "none"
            raise NoVideoStreamError(f"{name}: no video stream (streams found: {kinds}).")
    else:
        found = [s for s in videos if s.index == stream_index]
        if not found:
            have = [s.index for s in videos]
            raise NoVideoStreamError(f"{name}: stream {stream_index} is no video stream; video streams: {have}.")
        stream = found[0]
    if stream.codec_context is None:
        raise UnsupportedVideoError(
            f"{name}: FFmpeg has no decoder for the codec of stream {stream.index}. Re-encode the video."
        )
    return stream


@dataclass
class _Pictures:
    """Columns that grow by one per picture."""

    first_packet: array[int] = field(default_factory=lambda: array("q"))
    pts: list[int | None] = field(default_factory=list)
    dts: list[int | None] = field(default_factory=list)
    duration: array[int] = field(default_factory=lambda: array("q"))
    flags: array[int] = field(default_factory=lambda: array("B"))
    layer: array[int] = field(default_factory=lambda: array("B"))
    order: list[tuple[int, int] | None] = field(default_factory=list)
    parameter_sets: array[int] = field(default_factory=lambda: array("i"))

    def __len__(self) -> int:
        return len(self.flags)


class _Pass:
    """One pass over the packets of a stream."""

    def __init__(self, storage: Storage, stream: Any) -> None:
        context = stream.codec_context
        self._storage, self._stream, self._name = storage, stream, storage.name
        parser = make_parser(_codec_name(stream), context.extradata, context.codec.intra_only)
        if parser is None:
            raise UnsupportedVideoError(
                f"{storage.name}: codec {_codec_name(stream)} has no index rules here. Re-encode it, such as to H.264."
            )
        self._parser: Parser = parser
        self._extradata = context.extradata or b""
        self._locator = PacketLocator(storage)
        self._probe = _Probe(stream)
        self._offset, self._size = array("q"), array("q")
        self._crc, self._packet_dts = array("I"), array("q")
        self._direct = True
        self._table: list[tuple[bytes, ...]] = [parser.parameter_sets]
        self._in_force = 0
        self.pictures = _Pictures()

    def add(self, packet: Any) -> None:
        payload = bytes(packet)
        for kind in _new_extradata(packet):
            self._parser.set_extradata(kind)
        info = self._parser.packet(payload, packet.is_keyframe)
        self._place(packet, payload)
        self._note_parameter_sets()
        if info.new_picture or not len(self.pictures):
            self._begin_picture(packet, info)
        else:
            self._extend_picture(packet, info)
        self._probe.feed(packet)

    def _place(self, packet: Any, payload: bytes) -> None:
        if self._is_lost(packet):
            offset: int | None = packet.pos
        else:
            offset = self._locator.locate(packet.pos, payload) if self._direct else None
        self._direct = offset is not None
        self._offset.append(-1 if offset is None else offset)
        self._size.append(len(payload))
        self._crc.append(zlib.crc32(payload))
        self._packet_dts.append(NO_TIME if packet.dts is None else packet.dts)

    def _is_lost(self, packet: Any) -> bool:
        """Whether the packet ends past the end of the source."""
        return packet.pos is not None and packet.pos + packet.size > self._storage.size_bytes

    def _note_parameter_sets(self) -> None:
        now = self._parser.parameter_sets
        if now is not self._table[self._in_force]:
            if now in self._table:
                self._in_force = self._table.index(now)
            else:
                self._table.append(now)
                self._in_force = len(self._table) - 1

    def _begin_picture(self, packet: Any, info: PacketInfo) -> None:
        pictures = self.pictures
        first = not len(pictures)
        pictures.first_packet.append(len(self._size) - 1)
        pictures.pts.append(packet.pts)
        pictures.dts.append(packet.dts)
        pictures.duration.append(packet.duration or 0)
        pictures.flags.append(
            SYNC * (info.sync or first)
            | DISPOSABLE * info.disposable
            | HIDDEN * (not info.shown)
            | DISCARD * bool(packet.is_discard)
            | LEADING * info.skipped_leading
            | DAMAGED * (info.unsure or bool(packet.is_corrupt) or self._is_lost(packet))
        )
        pictures.layer.append(info.temporal_layer)
        pictures.order.append(info.order)
        pictures.parameter_sets.append(self._in_force)

    def _extend_picture(self, packet: Any, info: PacketInfo) -> None:
        flags = self.pictures.flags
        if not info.disposable:
            flags[-1] &= ~DISPOSABLE
        if info.unsure or packet.is_corrupt or self._is_lost(packet):
            flags[-1] |= DAMAGED

    def finish(self, container: Any) -> VideoIndex:
        pictures, stream = self.pictures, self._stream
        if not len(pictures):
            raise UnreadableVideoError(f"{self._name}: its video stream holds no packet. Fetch or write it again.")
        if getattr(self._parser, "packed", False):
            raise UnsupportedVideoError(
                f"{self._name}: MPEG-4 with packed B-frames (two pictures in one packet). Unpack them without loss: "
                f"ffmpeg -i IN -c copy -bsf:v mpeg4_unpack_bframes OUT."
            )
        self._probe.finish()
        codec = _codec_name(stream)
        flags = np.frombuffer(pictures.flags, np.uint8).copy()
        pts, rank, duration = _timeline(self.pictures, stream, flags, self._name)
        mark_leading(flags, rank, codec in _OPEN_GOP_BY_ORDER)
        presentation = presentation_order(flags, rank)
        info = self._probe.describe(container, self._parser.nal_length_size, self._direct, self._extradata)
        none = np.empty(0, np.int64)
        return VideoIndex(
            info=info,
            packet_offset=np.array(self._offset, np.int64),
            packet_size=np.array(self._size, np.int64),
            packet_crc=none.astype(np.uint32) if self._direct else np.array(self._crc, np.uint32),
            packet_dts=none if self._direct else np.array(self._packet_dts, np.int64),
            first_packet=np.array([*pictures.first_packet, len(self._size)], np.int64),
            pts=pts,
            duration=_display_durations(duration, pts, presentation),
            flags=flags,
            layer=np.array(pictures.layer, np.uint8),
            start=start_pictures(flags),
            parameter_sets=np.array(pictures.parameter_sets, np.int32),
            parameter_set_table=tuple(self._table),
            presentation=presentation,
        )


def _codec_name(stream: Any) -> str:
    """FFmpeg's name of the codec, whichever decoder serves it ("av1", not "libdav1d")."""
    return str(stream.codec_context.codec.canonical_name)


def _new_extradata(packet: Any) -> Iterator[bytes]:
    if packet.has_sidedata("new_extradata"):
        yield bytes(packet.get_sidedata("new_extradata"))


def _timeline(
    pictures: _Pictures, stream: Any, flags: np.ndarray[Any, np.dtype[np.uint8]], name: str
) -> tuple[Int64Array, Int64Array, Int64Array]:
    """Return per picture pts in ticks, display rank, and duration in ticks.

    Containers without presentation times (AVI, raw streams): the display order comes from the pictures' own headers,
    and the k-th shown picture gets the k-th decode time, or k times the frame duration where there is none either.
    """
    duration = np.array(pictures.duration, np.int64)
    if None not in pictures.pts:
        pts = np.array(pictures.pts, np.int64)
        return pts, pts, duration
    if None in pictures.order:
        raise UnsupportedVideoError(
            f"{name}: neither the container nor the pictures' headers say in which order they are shown. "
            f"Remux it into MP4 or Matroska with presentation times."
        )
    in_order = sorted(range(len(pictures)), key=lambda k: pictures.order[k] or (0, 0))
    rank = np.empty(len(pictures), np.int64)
    rank[in_order] = np.arange(len(pictures))
    if not duration.any():
        rate = stream.guessed_rate or stream.average_rate or _DEFAULT_FPS
        duration[:] = max(1, round(1 / (rate * stream.time_base)))
    shown = [k for k in in_order if not flags[k] & HIDDEN]
    if None not in pictures.dts:
        times = np.sort(np.array([pictures.dts[k] for k in shown], np.int64))
    else:
        times = np.arange(len(shown)) * int(np.median(duration))
    pts = np.zeros(len(pictures), np.int64)
    pts[shown] = times
    return pts, rank, duration


def _display_durations(duration: Int64Array, pts: Int64Array, presentation: np.ndarray[Any, Any]) -> Int64Array:
    """Return how long each picture is on screen, in ticks.

    The container's word where it is the same for all pictures. Else the time to the next displayed picture, since
    containers store the time to the next picture in decode order; the last picture gets the shorter of its own
    duration and that of the one before.
    """
    if len(presentation) < 2 or (duration[0] > 0 and (duration == duration[0]).all()):
        return duration
    shown = pts[presentation]
    steps = np.diff(shown)
    own = duration[presentation[-1]]
    last = min(own, steps[-1]) if own > 0 else steps[-1]
    duration[presentation] = np.append(steps, last)
    return duration


class _Probe:
    """Decodes until the first frame, for what only it tells: true size, pixel format, colour tags, display matrix."""

    def __init__(self, stream: Any) -> None:
        self._stream = stream
        self._frame: Any = None
        self._left = _PROBE_PACKETS
        stream.codec_context.thread_count = 1

    def feed(self, packet: Any) -> None:
        if self._frame is None and self._left > 0:
            self._left -= 1
            self._decode(packet)

    def finish(self) -> None:
        if self._frame is None:
            self._decode(None)

    def _decode(self, packet: Any) -> None:
        try:
            frames = self._stream.codec_context.decode(packet)
        except (av.error.FFmpegError, EOFError, ValueError):
            return  # damage here is damage of these pictures only, found again when they are asked for
        if frames:
            self._frame = frames[0]

    def describe(self, container: Any, nal_length_size: int, direct: bool, extradata: bytes) -> StreamInfo:
        stream, frame = self._stream, self._frame
        context = stream.codec_context
        picture = frame if frame is not None else context
        rotation, orientation = _display(frame)
        time_base = stream.time_base
        duration = None if stream.duration is None else float(stream.duration * time_base)
        if duration is None and container.duration is not None:
            duration = container.duration / av.time_base
        return StreamInfo(
            container=container.format.name,
            stream_index=stream.index,
            codec=_codec_name(stream),
            codec_tag=context.codec_tag,
            time_base=time_base,
            width=picture.width,
            height=picture.height,
            pixel_format=frame.format.name if frame is not None else context.pix_fmt,
            color_matrix=int(picture.colorspace),
            color_range=int(picture.color_range),
            color_primaries=int(picture.color_primaries),
            color_transfer=int(picture.color_trc),
            rotation=rotation,
            orientation=orientation,
            pixel_aspect_ratio=context.sample_aspect_ratio,
            bit_rate=context.bit_rate,
            average_fps_from_header=None if not stream.average_rate else float(stream.average_rate),
            duration_seconds_from_header=duration,
            begin_seconds_from_header=None if stream.start_time is None else float(stream.start_time * time_base),
            num_frames_from_header=stream.frames or None,
            extradata=extradata,
            nal_length_size=nal_length_size,
            direct=direct,
        )


def _display(frame: Any) -> tuple[float | None, Orientation]:
    """Return (rotation in degrees counter-clockwise, orientation) from the display matrix FFmpeg hangs on a frame.

    The matrix (ISO/IEC 14496-12 8.2.2) sends the coded point (x, y) to (a x + c y, b x + d y); it is taken as the
    nearest of the eight turns and mirrorings.
    """
    matrix = None
    side = [] if frame is None else list(frame.side_data)
    # Iterating gives the entries themselves, from PyAV 19 on their keys.
    for side_data in (entry if hasattr(entry, "type") else frame.side_data[entry] for entry in side):
        if side_data.type.name == "DISPLAYMATRIX":
            matrix = np.frombuffer(bytes(side_data), np.int32)
    if matrix is None or not matrix[[0, 1, 3, 4]].any():
        return None, Orientation()
    a, b, c, d = (int(matrix[k]) for k in (0, 1, 3, 4))
    rotation = -math.degrees(math.atan2(b, a))
    rotation = float(round(rotation / 90) * 90)
    if abs(a) + abs(d) >= abs(b) + abs(c):
        return rotation, Orientation(False, a < 0, d < 0)
    return rotation, Orientation(True, c < 0, b < 0)
