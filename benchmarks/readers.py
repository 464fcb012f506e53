"""One class per library: a frame by number, and a range of frames, one decode thread, the file kept open."""

from __future__ import annotations

import os
from importlib.metadata import version
from typing import Any, Protocol

import numpy as np
import torch


class Reader(Protocol):
    """Frames of one video."""

    def frame(self, number: int) -> Any:
        """Return one frame."""

    def clip(self, start: int, stop: int) -> Any:
        """Return the frames of [start, stop)."""


class Videodataset:
    """This library."""

    package = "videodataset-nvdec"

    def __init__(self, path: str) -> None:
        import videodataset as vd

        self._decoder = vd.VideoDecoder(path, device="cpu")

    def frame(self, number: int) -> Any:
        return self._decoder[number]

    def clip(self, start: int, stop: int) -> Any:
        return self._decoder.get_frames_in_range(start, stop).data


class Torchcodec:
    package = "torchcodec"

    def __init__(self, path: str) -> None:
        from torchcodec.decoders import VideoDecoder

        self._decoder = VideoDecoder(path, device="cpu", num_ffmpeg_threads=1)

    def frame(self, number: int) -> Any:
        return self._decoder[number]

    def clip(self, start: int, stop: int) -> Any:
        return self._decoder.get_frames_in_range(start, stop).data


class Decord:
    package = "decord2"

    def __init__(self, path: str) -> None:
        import decord

        self._reader = decord.VideoReader(path, num_threads=1)

    def frame(self, number: int) -> Any:
        return torch.from_numpy(self._reader[number].asnumpy()).permute(2, 0, 1)

    def clip(self, start: int, stop: int) -> Any:
        frames = self._reader.get_batch(list(range(start, stop))).asnumpy()
        return torch.from_numpy(frames).permute(0, 3, 1, 2)


class OpenCV:
    package = "opencv-python-headless"

    def __init__(self, path: str) -> None:
        os.environ["OPENCV_FFMPEG_THREADS"] = "1"
        import cv2

        cv2.setNumThreads(1)
        self._cv2 = cv2
        self._capture = cv2.VideoCapture(path, cv2.CAP_FFMPEG)
        if not self._capture.isOpened():
            raise RuntimeError("cannot be opened")

    def frame(self, number: int) -> Any:
        self._go_to(number)
        return self._next()

    def clip(self, start: int, stop: int) -> Any:
        self._go_to(start)
        return torch.stack([self._next() for _ in range(start, stop)])

    def _go_to(self, number: int) -> None:
        if int(self._capture.get(self._cv2.CAP_PROP_POS_FRAMES)) != number:
            self._capture.set(self._cv2.CAP_PROP_POS_FRAMES, number)

    def _next(self) -> torch.Tensor:
        read, frame = self._capture.read()
        if not read:
            raise RuntimeError("gives no frame")
        return torch.from_numpy(self._cv2.cvtColor(frame, self._cv2.COLOR_BGR2RGB)).permute(2, 0, 1)


class PlainPyAV:
    """Seek to the key frame at or before the frame's time, decode on until it comes; times are listed beforehand."""

    package = "av"

    def __init__(self, path: str) -> None:
        import av

        self._container = av.open(path)
        self._stream = self._container.streams.video[0]
        self._times = sorted(packet.pts for packet in self._container.demux(self._stream) if packet.size)
        self._container.seek(0, stream=self._stream)
        self._stream.codec_context.thread_count = 1
        self._frames = self._container.decode(self._stream)
        self._next = 0

    def frame(self, number: int) -> Any:
        return self.clip(number, number + 1)[0]

    def clip(self, start: int, stop: int) -> Any:
        if start != self._next:
            self._container.seek(self._times[start] or 0, stream=self._stream)
            self._frames = self._container.decode(self._stream)
        out: list[np.ndarray[Any, Any]] = []
        while len(out) < stop - start:
            frame: Any = next(self._frames)
            if frame.pts == self._times[start + len(out)]:
                out.append(frame.to_ndarray(format="rgb24", threads=1))
        self._next = stop
        return torch.from_numpy(np.stack(out)).permute(0, 3, 1, 2)


READERS: dict[str, Any] = {
    "videodataset": Videodataset,
    "torchcodec": Torchcodec,
    "decord2": Decord,
    "OpenCV": OpenCV,
    "PyAV": PlainPyAV,
}


def version_of(name: str) -> str | None:
    """Return the installed version, None where the library is not installed."""
    if name == "videodataset":
        import videodataset

        return videodataset.__version__
    try:
        return version(READERS[name].package)
    except ModuleNotFoundError:
        return None
