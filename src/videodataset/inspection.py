"""Inspection: what a video is, what a random frame of it costs, who decodes it here, and what to do about it.

Everything comes from the index and the container's header; nothing is decoded but the first frame, while indexing.
"""

from __future__ import annotations

from bisect import bisect_right, insort
from collections.abc import Callable
from dataclasses import asdict, dataclass, replace
from typing import Any

import av
import numpy as np
import torch

from videodataset.advice import Advice, advice_for
from videodataset.convert import check_convertible, color_description
from videodataset.decode.contexts import decoder_name
from videodataset.decode.nvdec import nvdec_engine
from videodataset.errors import ForkedCudaError, NvdecUnavailableError, UnsupportedVideoError, VideoDatasetError
from videodataset.frame_cost import picture_sizes_bytes, sums_of_all, sums_of_needed
from videodataset.index import VideoIndex, load_or_build
from videodataset.index.build import open_container
from videodataset.index.model import DAMAGED, DISCARD, DISPOSABLE, HIDDEN, LEADING, SYNC, StreamInfo
from videodataset.metadata import metadata_of
from videodataset.storage import Source, Storage, open_storage

_RANGES = {1: "limited", 2: "full"}
#: Matroska and FLV store whole milliseconds, and keep them when they are remuxed.
_ROUNDING_SECONDS = 0.001
_COARSE_TICKS = 4  # a frame of fewer ticks than this has no rounding to hide behind


@dataclass(frozen=True)
class Color:
    """Colour tags by FFmpeg's names, None where the stream has none, and what the frames are converted with."""

    matrix: str | None
    range: str | None
    primaries: str | None
    transfer: str | None
    read_as: str | None  # such as "BT.601 limited"; None where there is no conversion


@dataclass(frozen=True)
class Gops:
    """Groups of pictures: a sync picture and what follows it in decode order, up to the next one.

    Attributes:
        sync_points: how many there are.
        min: pictures in the shortest group; likewise `median` and `max`.
        open: whether some pictures refer to the group before theirs.
        leading_pictures: how many do; decoding them starts one group earlier.
    """

    sync_points: int
    min: int
    median: float
    max: int
    open: bool
    leading_pictures: int


@dataclass(frozen=True)
class Pictures:
    """Coded pictures, of which the displayed frames are some.

    Attributes:
        coded: how many there are.
        hidden: decoded and never shown (alternate references).
        cut_away: decoded and not shown, because the container's edit list says so.
        disposable: nothing of their temporal layer refers to them, so they are left out unless asked for.
        disposable_share: `disposable` over `coded`.
        temporal_layers: 1 where the codec has none.
    """

    coded: int
    hidden: int
    cut_away: int
    disposable: int
    disposable_share: float
    temporal_layers: int


@dataclass(frozen=True)
class FrameTimes:
    """How evenly frames are shown.

    Attributes:
        variable: whether the time between frames varies by more than rounding to the container's ticks.
        shortest_seconds: from one frame to the next; None with fewer than two frames. Likewise `longest_seconds`.
    """

    variable: bool
    shortest_seconds: float | None
    longest_seconds: float | None


@dataclass(frozen=True)
class PerRandomFrame:
    """Mean over every displayed frame asked for alone; None where there is none.

    Attributes:
        all: of what lies between the sync picture and the frame.
        needed: of what this library decodes of that.
    """

    all: float | None
    needed: float | None


@dataclass(frozen=True)
class DecodedBy:
    """Who decodes the video on this machine; `backend` is None where nobody does."""

    backend: str | None
    reason: str


@dataclass(frozen=True)
class Damage:
    """What the container and the pictures' headers show; damage inside pictures is found when they are decoded.

    Attributes:
        pictures: whose bytes are missing, or whose headers are unreadable.
        frames: displayed frames that are built on such a picture, and will raise `DamagedVideoError`.
    """

    pictures: int
    frames: int


@dataclass(frozen=True)
class VideoReport:
    """What `inspect_video` finds; `width` and `height` are those of the delivered frames, after rotation."""

    path: str
    size_bytes: int
    container: str
    codec: str
    codec_tag: str
    profile: str | None
    width: int
    height: int
    pixel_format: str | None
    bit_depth: int | None
    rotation: float | None
    fps: float | None
    frames: int
    duration_seconds: float
    color: Color
    frame_times: FrameTimes
    gops: Gops
    b_frames: bool  # whether pictures are coded in another order than they are shown
    reorder_depth: int  # the most pictures coded before one that is shown before them
    pictures: Pictures
    pictures_per_random_frame: PerRandomFrame
    bytes_per_random_frame: PerRandomFrame
    direct_reads: bool  # else through FFmpeg's demuxer
    decoded_by: DecodedBy
    damage: Damage
    advice: tuple[Advice, ...] = ()

    def to_json(self) -> dict[str, Any]:
        """Return it as what `json.dump` takes."""
        return asdict(self)


def inspect_video(source: Source, *, stream_index: int | None = None) -> VideoReport:
    """Inspect one video stream of a source; its index is made and saved if it is not there yet.

    Args:
        source: path, bytes, 1-D uint8 tensor, file-like object, or storage.
        stream_index: which stream of the container; None takes FFmpeg's best video stream.

    Raises:
        UnreadableVideoError: the source cannot be read as a video.
        NoVideoStreamError: it holds no (such) video stream.
        UnsupportedVideoError: the codec cannot be indexed.
    """
    storage = open_storage(source)
    index = load_or_build(storage, stream_index=stream_index)
    report = _facts(index, storage, _profile(storage, index.info.stream_index))
    return replace(report, advice=advice_for(report))


def _facts(index: VideoIndex, storage: Storage, profile: str | None) -> VideoReport:
    info, metadata = index.info, metadata_of(index)
    depth = _reorder_depth(index)
    sizes = picture_sizes_bytes(index)
    return VideoReport(
        path=storage.name,
        size_bytes=storage.size_bytes,
        container=info.container,
        codec=info.codec,
        codec_tag=info.codec_tag,
        profile=profile,
        width=metadata.width,
        height=metadata.height,
        pixel_format=info.pixel_format,
        bit_depth=_bit_depth(info.pixel_format),
        rotation=info.rotation,
        fps=metadata.average_fps,
        frames=len(index),
        duration_seconds=metadata.duration_seconds,
        color=_color(index, storage.name),
        frame_times=_frame_times(index),
        gops=_gops(index),
        b_frames=depth > 0,
        reorder_depth=depth,
        pictures=_pictures(index),
        pictures_per_random_frame=_per_random_frame(index, np.ones(len(index.flags), np.int64)),
        bytes_per_random_frame=_per_random_frame(index, sizes),
        direct_reads=info.direct,
        decoded_by=_decoded_by(info, storage.name),
        damage=_damage(index),
    )


def _profile(storage: Storage, stream_index: int) -> str | None:
    """Return FFmpeg's name of the codec's profile, from the container's header; None where unknown."""
    try:
        with open_container(storage) as container:
            profile = container.streams[stream_index].codec_context.profile
    except (VideoDatasetError, av.error.FFmpegError, AttributeError, IndexError):
        return None
    return None if profile is None else str(profile)


def _bit_depth(pixel_format: str | None) -> int | None:
    if pixel_format is None:
        return None
    video_format: Any = av.VideoFormat(pixel_format, 16, 16)
    return max((component.bits for component in video_format.components), default=None)


def _color(index: VideoIndex, name: str) -> Color:
    info, metadata = index.info, metadata_of(index)
    return Color(
        matrix=metadata.color_space,
        range=_RANGES.get(info.color_range),
        primaries=metadata.color_primaries,
        transfer=metadata.color_transfer_characteristic,
        read_as=_read_as(info, name),
    )


def _read_as(info: StreamInfo, name: str) -> str | None:
    pixel_format = info.pixel_format or ""
    try:
        color = color_description(info.color_matrix, info.color_range, pixel_format, name)
    except UnsupportedVideoError:
        return "RGB" if "rgb" in pixel_format or "bgr" in pixel_format else None
    if pixel_format.startswith("gbr"):
        return "RGB"
    matrix = {1: "BT.709", 4: "FCC", 7: "SMPTE 240M", 9: "BT.2020"}.get(color.matrix, "BT.601")
    extent = "full" if color.full_range else "limited"
    return f"gray {extent}" if pixel_format.startswith("gray") else f"{matrix} {extent}"


def _frame_times(index: VideoIndex) -> FrameTimes:
    if len(index) < 2:
        return FrameTimes(False, None, None)
    steps = np.diff(index.pts[index.presentation])
    shortest, longest, median = int(steps.min()), int(steps.max()), float(np.median(steps))
    tick = float(index.info.time_base)
    rounding = max(1.0, _ROUNDING_SECONDS / tick * 1.001) if median >= _COARSE_TICKS else 0.0
    return FrameTimes(longest - shortest > rounding, shortest * tick, longest * tick)


def _gops(index: VideoIndex) -> Gops:
    sync = np.flatnonzero(index.flags & SYNC)
    lengths = np.diff(np.append(sync, len(index.flags)))
    leading = int(np.count_nonzero(index.flags & LEADING))
    return Gops(len(sync), int(lengths.min()), float(np.median(lengths)), int(lengths.max()), leading > 0, leading)


def _pictures(index: VideoIndex) -> Pictures:
    count = len(index.flags)
    hidden, cut_away, disposable = (int(np.count_nonzero(index.flags & flag)) for flag in (HIDDEN, DISCARD, DISPOSABLE))
    layers = len(np.unique(index.layer))
    return Pictures(count, hidden, cut_away, disposable, disposable / count, layers)


def _reorder_depth(index: VideoIndex) -> int:
    """Return the most shown pictures that precede one in decode order and follow it in display order."""
    if not (np.diff(index.presentation) < 0).any():
        return 0
    ranks = np.argsort(index.presentation, kind="stable")  # display rank of each shown picture, in decode order
    lowest_to_come = np.minimum.accumulate(ranks[::-1])[::-1].tolist()
    waiting: list[int] = []  # decoded, and something is still to come that is shown before
    depth = 0
    for rank, lowest in zip(ranks.tolist(), lowest_to_come, strict=True):
        del waiting[: bisect_right(waiting, lowest)]
        depth = max(depth, len(waiting) - bisect_right(waiting, rank))
        insort(waiting, rank)
    return depth


def _per_random_frame(index: VideoIndex, values: Any) -> PerRandomFrame:
    if not len(index):
        return PerRandomFrame(None, None)
    return PerRandomFrame(float(sums_of_all(index, values).mean()), float(sums_of_needed(index, values).mean()))


def _damage(index: VideoIndex) -> Damage:
    damaged = (index.flags & DAMAGED) != 0
    frames = int(np.count_nonzero(sums_of_needed(index, damaged))) if damaged.any() else 0
    return Damage(int(np.count_nonzero(damaged)), frames)


def _decoded_by(info: StreamInfo, name: str) -> DecodedBy:
    """Ask each backend, the best first; the reason says also why better ones do not serve."""
    refusals: list[str] = []
    for backend, ask in _BACKENDS.items():
        usable, why = ask(info, name)
        if usable:
            return DecodedBy(backend, "; ".join([why, *refusals]))
        refusals.append(why)
    return DecodedBy(None, "; ".join(refusals))


def _nvdec(info: StreamInfo, name: str) -> tuple[bool, str]:
    try:
        reason = nvdec_engine(torch.device("cuda")).why_not(info)
    except (NvdecUnavailableError, ForkedCudaError) as error:
        return False, f"no NVDEC here: {error}"
    return reason is None, reason or "this GPU's NVDEC"


def _cpu(info: StreamInfo, name: str) -> tuple[bool, str]:
    decoder = decoder_name(info.codec)
    try:
        av.CodecContext.create(decoder, "r")
        check_convertible(info, name)
    except (ValueError, av.error.FFmpegError) as error:
        return False, str(error)
    return True, f"FFmpeg's decoder {decoder}"


#: Backends, the best first: (stream, its name for messages) to (whether it decodes it here, why).
_BACKENDS: dict[str, Callable[[StreamInfo, str], tuple[bool, str]]] = {"nvdec": _nvdec, "cpu": _cpu}
