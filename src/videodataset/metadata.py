"""Facts of a video stream under torchcodec's names."""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction

from videodataset.index.model import StreamInfo, VideoIndex

_PRIMARIES = {
    1: "bt709", 4: "bt470m", 5: "bt470bg", 6: "smpte170m", 7: "smpte240m", 8: "film", 9: "bt2020", 10: "smpte428",
    11: "smpte431", 12: "smpte432", 22: "ebu3213",
}  # fmt: skip
_MATRICES = {0: "gbr", 1: "bt709", 4: "fcc", 5: "bt470bg", 6: "smpte170m", 7: "smpte240m", 8: "ycgco", 9: "bt2020nc",
             10: "bt2020c", 14: "ictcp"}  # fmt: skip
_TRANSFERS = {1: "bt709", 4: "bt470m", 5: "bt470bg", 6: "smpte170m", 7: "smpte240m", 8: "linear", 13: "iec61966-2-1",
              14: "bt2020-10", 15: "bt2020-12", 16: "smpte2084", 18: "arib-std-b67"}  # fmt: skip


@dataclass(frozen=True)
class VideoStreamMetadata:
    """Facts of one video stream; times in seconds.

    "From content" is counted over the packets, "from header" is the container's claim.

    Attributes:
        codec: FFmpeg's name.
        width: of the delivered frames, after rotation.
        height: of the delivered frames, after rotation.
        num_frames: how many frames are delivered; `len()` of the decoder.
        average_fps: `num_frames` over the stream's duration.
        begin_stream_seconds: when the first frame is shown.
        end_stream_seconds: when the last frame ends; no frame is played at this time.
        rotation: degrees counter-clockwise from the display matrix, already applied to the frames.
        color_space: matrix tag by FFmpeg's name; None where untagged, which is read as BT.601.
    """

    duration_seconds_from_header: float | None
    begin_stream_seconds_from_header: float | None
    bit_rate: float | None
    codec: str
    stream_index: int
    duration_seconds: float
    begin_stream_seconds: float
    begin_stream_seconds_from_content: float
    end_stream_seconds_from_content: float
    width: int
    height: int
    num_frames_from_header: int | None
    num_frames_from_content: int
    average_fps_from_header: float | None
    pixel_aspect_ratio: Fraction | None
    rotation: float | None
    color_primaries: str | None
    color_space: str | None
    color_transfer_characteristic: str | None
    pixel_format: str | None
    end_stream_seconds: float
    num_frames: int
    average_fps: float | None


def metadata_of(index: VideoIndex) -> VideoStreamMetadata:
    """Return the metadata of an indexed stream."""
    info: StreamInfo = index.info
    begin = float(index.frame_pts_seconds[0]) if len(index) else 0.0
    end = index.end_seconds
    height, width = index.displayed_size
    return VideoStreamMetadata(
        duration_seconds_from_header=info.duration_seconds_from_header,
        begin_stream_seconds_from_header=info.begin_seconds_from_header,
        bit_rate=info.bit_rate,
        codec=info.codec,
        stream_index=info.stream_index,
        duration_seconds=end - begin,
        begin_stream_seconds=begin,
        begin_stream_seconds_from_content=begin,
        end_stream_seconds_from_content=end,
        width=width,
        height=height,
        num_frames_from_header=info.num_frames_from_header,
        num_frames_from_content=len(index),
        average_fps_from_header=info.average_fps_from_header,
        pixel_aspect_ratio=info.pixel_aspect_ratio,
        rotation=info.rotation,
        color_primaries=_PRIMARIES.get(info.color_primaries),
        color_space=_MATRICES.get(info.color_matrix),
        color_transfer_characteristic=_TRANSFERS.get(info.color_transfer),
        pixel_format=info.pixel_format,
        end_stream_seconds=end,
        num_frames=len(index),
        average_fps=len(index) / (end - begin) if end > begin else info.average_fps_from_header,
    )
