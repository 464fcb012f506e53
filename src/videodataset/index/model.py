"""What is known of a video once its container has been read."""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

Int64Array = npt.NDArray[np.int64]
Int32Array = npt.NDArray[np.int32]
UInt8Array = npt.NDArray[np.uint8]
UInt32Array = npt.NDArray[np.uint32]

# Flags of a picture.
SYNC = 1  # decoding may start here
DISPOSABLE = 2  # no other picture of its temporal layer refers to it
HIDDEN = 4  # decoded, never shown by the stream itself (alternate reference)
DISCARD = 8  # decoded, cut away by the container (edit list)
LEADING = 16  # shown before the sync picture it follows, and refers to pictures before that one
DAMAGED = 32  # the container itself says that bytes are missing or wrong


@dataclass(frozen=True, slots=True)
class Orientation:
    """How a coded picture becomes the displayed one: first transpose, then flip left-right, then top-bottom."""

    transpose: bool = False
    flip_x: bool = False
    flip_y: bool = False


@dataclass(frozen=True, slots=True)
class StreamInfo:
    """Facts of the stream that do not change from picture to picture."""

    container: str  # FFmpeg's name of the format, such as "mov,mp4,m4a,3gp,3g2,mj2"
    stream_index: int
    codec: str  # FFmpeg's name, such as "h264"
    codec_tag: str  # the container's four characters, such as "avc1"
    time_base: Fraction  # seconds per tick
    width: int  # of the decoded picture, after cropping, before rotation
    height: int
    pixel_format: str | None
    color_matrix: int  # ISO/IEC 23091-2 MatrixCoefficients; 2 = not said
    color_range: int  # 0 = not said, 1 = limited, 2 = full
    color_primaries: int
    color_transfer: int
    rotation: float | None  # degrees counter-clockwise, a multiple of 90; None = the container says nothing
    orientation: Orientation
    pixel_aspect_ratio: Fraction | None
    bit_rate: float | None
    average_fps_from_header: float | None
    duration_seconds_from_header: float | None
    begin_seconds_from_header: float | None
    num_frames_from_header: int | None
    extradata: bytes  # the codec's configuration as the container gives it
    nal_length_size: int  # bytes of the length before each NAL unit; 0 = start codes, or no NAL units
    direct: bool  # every packet's bytes lie in one piece in the source


class Rows(NamedTuple):
    """Arrays of an index, seen so that one value is a Python int at once; see `VideoIndex` for what they mean."""

    packet_offset: memoryview
    packet_size: memoryview
    first_packet: memoryview
    flags: memoryview
    layer: memoryview
    start: memoryview
    parameter_sets: memoryview
    presentation: memoryview
    bytes_before: memoryview  # per packet, and one more at the end: the sizes of all packets before it


@dataclass(frozen=True)
class VideoIndex:
    """Packets and pictures of one video stream, in decode order, and the order in which pictures are shown.

    A picture is one or more packets (the two fields of a frame may come apart). All arrays are one-dimensional.
    """

    info: StreamInfo
    packet_offset: Int64Array  # byte position in the source; -1 where not `info.direct`
    packet_size: Int64Array  # bytes
    packet_crc: UInt32Array  # CRC-32 of the packet; empty where `info.direct`
    packet_dts: Int64Array  # ticks; NO_TIME where the container gives none; empty where `info.direct`
    first_packet: Int64Array  # per picture, and one more at the end: packets [first_packet[p], first_packet[p + 1])
    pts: Int64Array  # per picture, in ticks of `info.time_base`
    duration: Int64Array  # per picture, in ticks
    flags: UInt8Array  # per picture
    layer: UInt8Array  # per picture: temporal layer
    start: Int32Array  # per picture: the sync picture from which it is decoded; -1 where there is none
    parameter_sets: Int32Array  # per picture: which entry of parameter_set_table is in force
    parameter_set_table: tuple[tuple[bytes, ...], ...]  # unframed units; entry 0 is the container's own
    presentation: Int32Array  # displayed frame number to picture

    def __len__(self) -> int:
        """Return the number of displayed frames."""
        return len(self.presentation)

    @cached_property
    def rows(self) -> Rows:
        """The arrays for reading single values: numpy's own scalars take several times as long."""
        return Rows(*(memoryview(getattr(self, name)) for name in Rows._fields))

    @cached_property
    def bytes_before(self) -> Int64Array:
        """Per packet, and one more at the end: the sizes of all packets before it, together."""
        return np.concatenate(([0], np.cumsum(self.packet_size)), dtype=np.int64)

    def __getstate__(self) -> dict[str, Any]:
        """Pickle the fields, not what follows from them."""
        return {name: getattr(self, name) for name in self.__dataclass_fields__}

    @property
    def displayed_size(self) -> tuple[int, int]:
        """(height, width) of the frames that are delivered."""
        size = (self.info.height, self.info.width)
        return size[::-1] if self.info.orientation.transpose else size

    @cached_property
    def frame_pts_seconds(self) -> npt.NDArray[np.float64]:
        """When each displayed frame is shown, in seconds on the stream's own timeline."""
        return self._seconds(self.pts[self.presentation])

    @cached_property
    def frame_duration_seconds(self) -> npt.NDArray[np.float64]:
        """How long each displayed frame is shown, in seconds, as the container says."""
        return self._seconds(self.duration[self.presentation])

    @cached_property
    def end_seconds(self) -> float:
        """When the last frame ends, in seconds."""
        if not len(self.presentation):
            return 0.0
        ends = self.pts[self.presentation] + self.duration[self.presentation]
        return float(self._seconds(ends.max()[None])[0])

    def _seconds(self, ticks: Int64Array) -> npt.NDArray[np.float64]:
        # Multiplied before it is divided: exact until the last rounding, as FFmpeg's av_q2d product is not.
        return ticks.astype(np.float64) * self.info.time_base.numerator / self.info.time_base.denominator


NO_TIME = np.iinfo(np.int64).min
