"""One video, any frame: torchcodec's `VideoDecoder` by names, arguments and meaning, always exact."""

from __future__ import annotations

import json
import numbers
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
import torch

from videodataset.convert import Transform
from videodataset.errors import FrameIndexError
from videodataset.fetch import Ask, Output, default_threads, fetch, fetch_frame, require_device, target_device
from videodataset.frames import Frame, FrameBatch
from videodataset.index import VideoIndex
from videodataset.index.times import frames_played_at, resampled_times
from videodataset.metadata import VideoStreamMetadata, metadata_of
from videodataset.storage import Source, Storage, open_storage
from videodataset.videos import Video

_PIXELS = Output("rgb", Transform())


@dataclass(frozen=True)
class CpuFallbackStatus:
    """Whether frames asked for on a GPU are decoded on the CPU, and why; true when they are."""

    status_known: bool = True
    reason: str | None = None

    def __bool__(self) -> bool:
        return self.reason is not None

    def __str__(self) -> str:
        return f"Fallback to the CPU: {self.reason}" if self.reason else "No fallback required"


class VideoDecoder:
    """Random access to the frames of one video stream.

    The first opening of a file reads it once and saves an index; later ones take a few milliseconds. A decoder holds
    no open file and no FFmpeg state: thousands may be alive, they may be pickled (sources by path or bytes), used
    from several threads, and used after a fork.

    Args:
        source: path, bytes, 1-D uint8 tensor, or file-like object with `read` and `seek`.
        stream_index: stream of the container, counted over all kinds; None takes FFmpeg's best video stream.
        dimension_order: "NCHW" or "NHWC".
        num_ffmpeg_threads: how many runs of pictures are decoded at a time; 0 = one per core.
        device: where frames go: "cpu", "cuda", "cuda:1"; "auto", the GPU where there is one, and the CPU in a loader's
            worker; None for `torch.get_default_device()`. What a GPU does not decode is decoded on the CPU and
            converted on the GPU, which `cpu_fallback` tells.
        seek_mode: "exact" or "approximate"; taken for compatibility, access is always exact.
        transforms: modules applied in order to the frames, uint8 (N, 3, H, W), before they are returned.
        custom_frame_mappings: torchcodec's JSON of frames; checked against the video, which is indexed anyway.

    Raises:
        UnreadableVideoError: the source cannot be read as a video.
        NoVideoStreamError: it holds no (such) video stream.
        UnsupportedVideoError: the codec is not known.
        NvdecUnavailableError: a CUDA device that is not there, or without a video library.
        ForkedCudaError: a CUDA device in a process forked from one that has used it.

    Attributes:
        metadata: facts of the stream, `VideoStreamMetadata`.
        stream_index: the stream that is decoded.
    """

    def __init__(
        self,
        source: Source,
        *,
        stream_index: int | None = None,
        dimension_order: Literal["NCHW", "NHWC"] = "NCHW",
        num_ffmpeg_threads: int = 1,
        device: str | torch.device | None = None,
        seek_mode: Literal["exact", "approximate"] = "exact",
        transforms: Sequence[Any] | None = None,
        custom_frame_mappings: Any | None = None,
    ) -> None:
        if seek_mode not in ("exact", "approximate"):
            raise ValueError(f"seek_mode must be 'exact' or 'approximate', got {seek_mode!r}")
        if dimension_order not in ("NCHW", "NHWC"):
            raise ValueError(f"dimension_order must be 'NCHW' or 'NHWC', got {dimension_order!r}")
        if not isinstance(num_ffmpeg_threads, int) or num_ffmpeg_threads < 0:
            raise ValueError(f"num_ffmpeg_threads must be an int of at least 0, got {num_ffmpeg_threads!r}")
        if custom_frame_mappings is not None and seek_mode == "approximate":
            raise ValueError("custom_frame_mappings cannot be combined with seek_mode='approximate'")
        self._transforms = _checked_transforms(transforms)
        self._device = target_device(device)
        self._arguments = (source, stream_index, dimension_order, num_ffmpeg_threads, device, seek_mode, transforms)
        self._channels_first = dimension_order == "NCHW"
        self._threads = {0: default_threads(), 1: 0}.get(num_ffmpeg_threads, num_ffmpeg_threads)  # 0: in this thread
        self._video = Video(open_storage(source), stream_index)
        self._storage: Storage = self._video.storage
        self._index: VideoIndex = self._video.index
        self.metadata: VideoStreamMetadata = metadata_of(self._index)
        self.stream_index: int = self._index.info.stream_index
        if self._device.type == "cuda":
            from videodataset.decode.nvdec import nvdec_engine

            self._video.fallback_reason = nvdec_engine(self._device).why_not(self._index.info)
        if custom_frame_mappings is not None:
            _check_frame_mappings(custom_frame_mappings, self._index, self._storage.name)

    @property
    def cpu_fallback(self) -> CpuFallbackStatus:
        """Whether frames asked for on a GPU are decoded on the CPU, and why."""
        return CpuFallbackStatus(reason=self._video.fallback_reason)

    @property
    def backend(self) -> Literal["nvdec", "cpu"]:
        """What decodes."""
        return "nvdec" if self._device.type == "cuda" and not self.cpu_fallback else "cpu"

    def __len__(self) -> int:
        """Return the number of frames."""
        return len(self._index)

    def __getitem__(self, key: numbers.Integral | slice) -> torch.Tensor:
        """Return one frame, uint8 (3, H, W), or the frames of a slice, uint8 (N, 3, H, W); (H, W, 3) with "NHWC".

        Raises:
            FrameIndexError: the number is outside [-len, len).
            DamagedVideoError: the frame cannot be decoded without error.
        """
        if isinstance(key, slice):
            return self._frames(range(*key.indices(len(self))))
        if isinstance(key, (int, numbers.Integral)):
            return self._frame(self._checked(int(key)))
        raise TypeError(f"frames are asked for by int or slice, not {type(key).__name__}")

    def __iter__(self) -> Iterator[torch.Tensor]:
        """Give every frame in order, a few at a time decoded ahead."""
        ahead = 16
        for start in range(0, len(self), ahead):
            yield from self._frames(range(start, min(start + ahead, len(self))))

    def __reduce__(self) -> tuple[Callable[..., VideoDecoder], tuple[Any, ...]]:
        """Pickle as the arguments it was made with."""
        return _remake, self._arguments

    def __repr__(self) -> str:
        return f"VideoDecoder({self._storage.name!r}, {self.metadata})"

    def get_frame_at(self, index: int) -> Frame:
        """Return one frame by number; negative numbers count from the end.

        Raises:
            FrameIndexError: outside [-len, len).
            DamagedVideoError: it cannot be decoded without error.
        """
        number = self._checked(_as_int(index))
        return Frame(
            self._frame(number),
            float(self._index.frame_pts_seconds[number]),
            float(self._index.frame_duration_seconds[number]),
        )

    def get_frames_at(self, indices: torch.Tensor | Sequence[int]) -> FrameBatch:
        """Return frames by number, in the asked order, repeats honoured; each picture is decoded once.

        Raises:
            FrameIndexError: a number outside [-len, len); nothing is decoded then.
            DamagedVideoError: one cannot be decoded without error.
        """
        values = indices.tolist() if isinstance(indices, (torch.Tensor, np.ndarray)) else indices
        return self._batch([self._checked(_as_int(value)) for value in values])

    def get_frames_in_range(self, start: int, stop: int, step: int = 1) -> FrameBatch:
        """Return the frames of [start, stop) with a step, as a Python slice takes them.

        Raises:
            ValueError: the step is not positive.
            DamagedVideoError: a frame cannot be decoded without error.
        """
        if step <= 0:
            raise ValueError(f"step must be positive, got {step}")
        return self._batch(range(*slice(start, stop, step).indices(len(self))))

    def get_frame_played_at(self, seconds: float) -> Frame:
        """Return the frame on screen at a time in seconds, on the stream's own timeline.

        Raises:
            FrameIndexError: outside [begin_stream_seconds, end_stream_seconds), NaN or infinite.
            DamagedVideoError: it cannot be decoded without error.
        """
        return self.get_frame_at(int(frames_played_at(self._index, [float(seconds)], self._storage.name)[0]))

    def get_frames_played_at(self, seconds: torch.Tensor | Sequence[float]) -> FrameBatch:
        """Return the frames on screen at these times, in the asked order, repeats honoured.

        Raises:
            FrameIndexError: a time outside the stream, NaN or infinite; nothing is decoded then.
            DamagedVideoError: one cannot be decoded without error.
        """
        times = seconds.tolist() if isinstance(seconds, (torch.Tensor, np.ndarray)) else list(seconds)
        return self._batch(frames_played_at(self._index, times, self._storage.name).tolist())

    def get_frames_played_in_range(
        self, start_seconds: float, stop_seconds: float, fps: float | None = None
    ) -> FrameBatch:
        """Return the frames shown in [start_seconds, stop_seconds).

        Without `fps`: the frame on screen at the start, and every frame whose pts lies in the range. With `fps`: the
        frames on screen at start + k / fps, which become their times.

        Raises:
            ValueError: start after stop, a range outside the stream, NaN, or `fps` not positive.
            DamagedVideoError: a frame cannot be decoded without error.
        """
        begin, end = self.metadata.begin_stream_seconds, self.metadata.end_stream_seconds
        if not start_seconds <= stop_seconds:
            raise ValueError(f"start_seconds ({start_seconds}) must not be after stop_seconds ({stop_seconds})")
        if not begin <= start_seconds < end or not stop_seconds <= end:
            raise ValueError(
                f"[{start_seconds}, {stop_seconds}) s is not inside the video, which plays from {begin} s until {end} s"
            )
        if fps is not None and not (fps > 0 and np.isfinite(fps)):
            raise ValueError(f"fps must be positive, got {fps}")
        if start_seconds == stop_seconds:
            return self._batch([])
        if fps is not None:
            times = resampled_times(start_seconds, stop_seconds, fps)
            batch = self._batch(frames_played_at(self._index, times, self._storage.name).tolist())
            duration = torch.full((len(times),), 1.0 / fps, dtype=torch.float64)
            return FrameBatch(batch.data, torch.from_numpy(times), duration)
        first = int(frames_played_at(self._index, [start_seconds], self._storage.name)[0])
        stop = int(np.searchsorted(self._index.frame_pts_seconds, stop_seconds, side="left"))
        return self._batch(range(first, stop))

    def get_all_frames(self, fps: float | None = None) -> FrameBatch:
        """Return every frame, or with `fps` the video resampled to that rate. See `get_frames_played_in_range`."""
        if fps is None:
            return self._batch(range(len(self)))
        return self.get_frames_played_in_range(
            self.metadata.begin_stream_seconds, self.metadata.end_stream_seconds, fps=fps
        )

    def _checked(self, number: int) -> int:
        count = len(self._index)
        if not -count <= number < count:
            claimed = self._index.info.num_frames_from_header
            short = f" (its header promises {claimed}: it may be cut short)" if claimed and claimed > count else ""
            raise FrameIndexError(f"{self._storage.name}: no frame {number}; the video has {count} frames{short}.")
        return number % count

    def _batch(self, numbers_: Sequence[int]) -> FrameBatch:
        where = np.asarray(numbers_, np.int64)
        return FrameBatch(
            self._frames(numbers_),
            torch.from_numpy(self._index.frame_pts_seconds[where]),
            torch.from_numpy(self._index.frame_duration_seconds[where]),
        )

    def _frame(self, number: int) -> torch.Tensor:
        pixels = fetch_frame(self._video, number, _PIXELS, self._device, self._threads)
        if self._transforms:
            return self._finished(pixels[None])[0]
        return pixels if self._channels_first else pixels.permute(1, 2, 0)

    def _frames(self, numbers_: Sequence[int]) -> torch.Tensor:
        """Decode frames by number into one tensor."""
        require_device(self._device)
        data = _PIXELS.allocate((len(numbers_),), self._index, self._device)
        if len(numbers_):
            ask = Ask(self._video, np.asarray(numbers_, np.int64), _PIXELS, data)
            fetch([ask], self._device, self._threads).wait()
        return self._finished(data)

    def _finished(self, data: torch.Tensor) -> torch.Tensor:
        """(N, 3, H, W) as decoded to what the user asked for."""
        for transform in self._transforms:
            data = transform(data)
        return data if self._channels_first else data.permute(0, 2, 3, 1)


def _remake(
    source: Any, stream_index: Any, dimension_order: Any, threads: Any, device: Any, seek_mode: Any, transforms: Any
) -> VideoDecoder:
    return VideoDecoder(
        source,
        stream_index=stream_index,
        dimension_order=dimension_order,
        num_ffmpeg_threads=threads,
        device=device,
        seek_mode=seek_mode,
        transforms=transforms,
    )


def _as_int(value: Any) -> int:
    if not isinstance(value, numbers.Integral):
        raise TypeError(f"a frame number must be an int, not {type(value).__name__} ({value!r})")
    return int(value)


def _checked_transforms(transforms: Sequence[Any] | None) -> list[torch.nn.Module]:
    for transform in transforms or ():
        if not isinstance(transform, torch.nn.Module):
            raise TypeError(
                f"transforms must be torch.nn.Module (torchvision.transforms.v2 are), got {type(transform).__name__}"
            )
    return list(transforms or ())


def _check_frame_mappings(mappings: Any, index: VideoIndex, name: str) -> None:
    """Check torchcodec's frame mappings (JSON with frames of pts, duration, key_frame) against the indexed video."""
    try:
        data = json.load(mappings) if hasattr(mappings, "read") else json.loads(mappings)
        frames = data["frames"]
        key = "pts" if "pts" in frames[0] else "pkt_pts"
        pts = [int(frame[key]) for frame in frames]
    except (json.JSONDecodeError, KeyError, IndexError, TypeError, ValueError) as error:
        raise ValueError(f"custom_frame_mappings is no JSON with a list of 'frames' with 'pts': {error}") from error
    if sorted(pts) != index.pts[index.presentation].tolist():
        raise ValueError(f"{name}: custom_frame_mappings does not describe this video: its frame times differ")
