"""From times to displayed frames."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

from videodataset.errors import FrameIndexError
from videodataset.index.model import VideoIndex


def frames_played_at(
    index: VideoIndex, seconds: Sequence[float] | npt.NDArray[np.float64], name: str
) -> npt.NDArray[np.int64]:
    """Return the frame that is on screen at each time: the last one whose pts is not later.

    A gap between frames belongs to the frame before it.

    Args:
        index: the video.
        seconds: times on the stream's timeline, in [begin, end) of the stream.
        name: the source, for messages.

    Raises:
        FrameIndexError: a time outside the stream, NaN or infinite.
    """
    times = np.asarray(seconds, np.float64).reshape(-1)
    pts = index.frame_pts_seconds
    begin, end = (float(pts[0]), index.end_seconds) if len(pts) else (0.0, 0.0)
    with np.errstate(invalid="ignore"):
        outside = ~((times >= begin) & (times < end))
    if outside.any():
        raise FrameIndexError(
            f"{name}: no frame is played at {float(times[outside][0])} s; "
            f"the video plays from {begin} s until just before {end} s."
        )
    return np.searchsorted(pts, times, side="right") - 1


def frames_nearest_to(
    index: VideoIndex, seconds: Sequence[float] | npt.NDArray[np.float64], name: str, tolerance_s: float | None
) -> npt.NDArray[np.int64]:
    """Return the frame whose pts is nearest to each time, the earlier of two equally near.

    Args:
        index: the video.
        seconds: times on the stream's timeline.
        name: the source, for messages.
        tolerance_s: the most that a pts may be away; None takes any frame for a time within the stream.

    Raises:
        FrameIndexError: no pts is near enough, a time is outside the stream, NaN or infinite.
    """
    times = np.asarray(seconds, np.float64).reshape(-1)
    pts = index.frame_pts_seconds
    if tolerance_s is None or not len(pts) or not np.isfinite(times).all():
        frames_played_at(index, times, name)  # refuses what is outside
    after = np.searchsorted(pts, times, side="left").clip(0, len(pts) - 1)
    before = (after - 1).clip(0)
    frames: npt.NDArray[np.int64] = np.where(times - pts[before] <= pts[after] - times, before, after)
    return frames


def check_tolerance(
    index: VideoIndex,
    frames: npt.NDArray[np.int64],
    seconds: Sequence[float] | npt.NDArray[np.float64],
    name: str,
    tolerance_s: float,
) -> None:
    """Refuse frames whose pts is further than `tolerance_s` from the asked time.

    Raises:
        FrameIndexError: one is.
    """
    times = np.asarray(seconds, np.float64).reshape(-1)
    found = index.frame_pts_seconds[frames]
    far = np.abs(found - times) > tolerance_s
    if far.any():
        raise FrameIndexError(
            f"{name}: for {float(times[far][0])} s the frame found has pts {float(found[far][0])} s, further away than "
            f"the tolerance of {tolerance_s} s. Ask for times on the video's own timeline, or raise tolerance_s."
        )


def resampled_times(start_seconds: float, stop_seconds: float, fps: float) -> npt.NDArray[np.float64]:
    """Return start + k / fps for as many k as round into the range, as torchcodec counts them; float64 seconds."""
    count = int(np.floor((stop_seconds - start_seconds) * fps + 0.5))
    return start_seconds + np.arange(count, dtype=np.float64) * np.float64(1.0 / fps)
