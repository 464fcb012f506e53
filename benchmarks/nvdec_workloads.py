"""What benchmarks/nvdec.py measures of this library, each as a data set of references and the loader's arguments."""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch.utils.data import Dataset

import videodataset as vd

MEAN, STD = (0.485, 0.456, 0.406), (0.229, 0.224, 0.225)
SMALL = vd.Transform(size=(224, 224), dtype=torch.bfloat16, mean=MEAN, std=STD)
CLIP = 16
_CAMERAS, _GOP_30 = 6, 30


@dataclass
class Files:
    """Copies of one clip."""

    paths: list[str]
    frames: int  # of each


class Numbers:
    """Random numbers drawn beforehand: what a data set's own tables would give."""

    def __init__(self, seed: int = 0, count: int = 1 << 18) -> None:
        self._drawn = np.random.default_rng(seed).random((count, 2)).tolist()

    def pair(self, i: int, first: int, second: int) -> tuple[int, int]:
        """Two numbers below the given ones."""
        a, b = self._drawn[i % len(self._drawn)]
        return int(a * first), int(b * second)


class Asked(Dataset[Any], vd.BaseVideoDataset):
    """References by a function of the sample's number."""

    def __init__(self, make: Callable[[Asked, int], Any]) -> None:
        self._make = make

    def __len__(self) -> int:
        return 1 << 40

    def __getitem__(self, i: int) -> Any:
        return self._make(self, i)


class InOrder:
    """0, 1, 2, ... without end."""

    def __iter__(self) -> Iterator[int]:
        i = 0
        while True:
            yield i
            i += 1


def random_frames(files: Files) -> Callable[[Asked, int], Any]:
    """Single random frames of random files."""
    numbers = Numbers()

    def make(data: Asked, i: int) -> Any:
        path, frame = numbers.pair(i, len(files.paths), files.frames)
        return data.frames(files.paths[path], frame)

    return make


def random_clips(files: Files) -> Callable[[Asked, int], Any]:
    """16 consecutive frames from a random place."""
    numbers = Numbers()

    def make(data: Asked, i: int) -> Any:
        path, first = numbers.pair(i, len(files.paths), files.frames - CLIP + 1)
        return data.frames(files.paths[path], range(first, first + CLIP))

    return make


def random_of_one(files: Files) -> Callable[[Asked, int], Any]:
    """16 random frames of one file in each request."""
    numbers = Numbers()

    def make(data: Asked, i: int) -> Any:
        path, _ = numbers.pair(i, len(files.paths), 1)
        return data.frames(files.paths[path], [numbers.pair(CLIP * i + k, 1, files.frames)[1] for k in range(CLIP)])

    return make


def whole_files(files: Files) -> Callable[[Asked, int], Any]:
    """Every frame of a file in order."""
    return lambda data, i: data.frames(files.paths[i % len(files.paths)], range(files.frames))


def cameras_random(files: Files) -> Callable[[Asked, int], Any]:
    """One random moment of six cameras."""
    numbers = Numbers()

    def make(data: Asked, i: int) -> Any:
        first, frame = numbers.pair(i, len(files.paths) // _CAMERAS, files.frames)
        return [data.frames(files.paths[_CAMERAS * first + k], frame) for k in range(_CAMERAS)]

    return make


def cameras_in_order(files: Files) -> Callable[[Asked, int], Any]:
    """One moment after another of six cameras."""
    frames = files.frames // _GOP_30 * _GOP_30

    def make(data: Asked, i: int) -> Any:
        first = i // frames % (len(files.paths) // _CAMERAS)
        return [data.frames(files.paths[_CAMERAS * first + k], i % frames) for k in range(_CAMERAS)]

    return make


#: By name: the references, samples in a batch, frames in a sample.
WORKLOADS: dict[str, tuple[Callable[[Files], Callable[[Asked, int], Any]], int, int]] = {
    "random": (random_frames, 64, 1),
    "clips of 16": (random_clips, 8, CLIP),
    "16 random of one file": (random_of_one, 8, CLIP),
    "in order": (whole_files, 1, 0),
    "six cameras, random": (cameras_random, 16, _CAMERAS),
    "six cameras, in order": (cameras_in_order, 2 * _GOP_30, _CAMERAS),
}


class Utilisation:
    """How busy the decoders are by NVML while the block runs, in percent."""

    def __init__(self) -> None:
        self.samples: list[int] = []
        self._stop = threading.Event()

    def __enter__(self) -> Utilisation:
        self._thread = threading.Thread(target=self._watch)
        self._thread.start()
        return self

    def _watch(self) -> None:
        try:
            import pynvml
        except ImportError:
            return
        pynvml.nvmlInit()
        handle = pynvml.nvmlDeviceGetHandleByIndex(torch.cuda.current_device())
        while not self._stop.wait(0.1):
            self.samples.append(pynvml.nvmlDeviceGetDecoderUtilization(handle)[0])

    def __exit__(self, *_: Any) -> None:
        self._stop.set()
        self._thread.join()

    def median(self) -> int | None:
        """Of the samples; None where NVML cannot be asked."""
        late = sorted(self.samples[len(self.samples) // 3 :])  # NVML looks back over some of a second
        return late[len(late) // 2] if late else None


def cpu_seconds() -> float:
    """Processor time of this process, all its threads, and its children that have ended."""
    times = os.times()
    return times.user + times.system + times.children_user + times.children_system


def measure(
    name: str, files: Files, transform: vd.Transform | None, seconds: float, **arguments: Any
) -> dict[str, Any]:
    """Run a workload through `videodataset.DataLoader` to the GPU; frames a second and what they cost."""
    from videodataset.decode.nvdec import nvdec_engine

    references, batch_size, frames_each = WORKLOADS[name]
    frames_each = frames_each or files.frames
    arguments = {"batch_size": batch_size, "device": "cuda", "transform": transform, **arguments}
    loader = vd.DataLoader(Asked(references(files)), sampler=InOrder(), **arguments)
    batches = iter(loader)
    engine = nvdec_engine(torch.device("cuda"))
    warm = time.perf_counter()
    served = 0
    while time.perf_counter() - warm < max(1.0, seconds / 4) or served < 2:
        batch = next(batches)
        served += 1
    torch.cuda.synchronize()
    served, before, cpu, started = 0, engine.statistics(), cpu_seconds(), time.perf_counter()
    with Utilisation() as utilisation:
        while time.perf_counter() - started < seconds:
            batch = next(batches)
            served += batch_size * frames_each
        torch.cuda.synchronize()
        spent = time.perf_counter() - started
    used, after = cpu_seconds() - cpu, engine.statistics()
    batches.close()  # type: ignore[attr-defined]
    first = batch[0] if isinstance(batch, list) else batch
    return {
        "frames_per_s": round(served / spent),
        "decoded_per_s": round((after["pictures_decoded"] - before["pictures_decoded"]) / spent),
        "cores": round(used / spent, 2),
        "nvdec_percent": utilisation.median(),
        "mean_of_a_batch": round(float(first.float().mean()), 4),
    }
