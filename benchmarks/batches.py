"""Whole batches and loaders on the CPU, against torchcodec: the same random frames, in turns.

batch, 64 files   64 random frames of 64 files in one call; torchcodec: one frame a call, decoders kept open
batch, 1 file     64 random frames of one file in one call; torchcodec: one frame a call
loader            batches of 16 random frames of 8 files, full size, two workers: `videodataset.DataLoader`; torch's
                  loader with torchcodec decoders kept open in its workers
loader, 1 worker  the same with one worker, the main process idle, and then with a thread of it running Python code
                  all the time: on two cores each has one to itself, so only the interpreter's lock can slow it
"""

from __future__ import annotations

import argparse
import json
import os
import random
import shutil
import statistics
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, nullcontext
from pathlib import Path
from typing import Any

import torch
from rich.console import Console
from rich.table import Table
from torch.utils.data import Dataset

import videodataset as vd
from benchmarks.clips import ENCODES, digest, make_clip
from benchmarks.record import facts_of_the_run
from videodataset.index import load_or_build
from videodataset.plan import plan_runs

_BATCH, _FILES, _LOADED, _LOADER_FILES, _WORKERS = 64, 64, 16, 8, 2


def copies(path: Path, count: int) -> list[str]:
    """Return paths of copies of a clip, so that as many files are read."""
    folder = path.with_suffix(".copies")
    folder.mkdir(exist_ok=True)
    paths = [folder / f"{number:03}.mp4" for number in range(count)]
    for each in paths:
        if not each.exists():
            shutil.copy(path, each)
    return [str(each) for each in paths]


class OursInOneCall:
    """`videodataset.decode` on all references."""

    def __init__(self, paths: list[str]) -> None:
        self._paths = paths

    def batch(self, asked: list[tuple[int, int]]) -> torch.Tensor:
        return vd.decode([vd.FrameRef(self._paths[file], frame) for file, frame in asked], device="cpu")


class TorchcodecOneByOne:
    """A torchcodec decoder per file, kept open; one frame a call."""

    def __init__(self, paths: list[str], threads: int) -> None:
        from torchcodec.decoders import VideoDecoder

        self._decoders = [VideoDecoder(path, num_ffmpeg_threads=threads) for path in paths]

    def batch(self, asked: list[tuple[int, int]]) -> torch.Tensor:
        return torch.stack([self._decoders[file][frame] for file, frame in asked])


class Frames(Dataset[Any], vd.BaseVideoDataset):
    """Random frames; sample i is the same in every process."""

    def __init__(self, paths: list[str], count: int, length: int, seed: int) -> None:
        self.paths, self.length = paths, length
        rng = random.Random(seed)
        self.asked = [(rng.randrange(len(paths)), rng.randrange(count)) for _ in range(length)]

    def __len__(self) -> int:
        return self.length

    def __getitem__(self, i: int) -> Any:
        file, frame = self.asked[i]
        return self.frames(self.paths[file], frame)


class TorchcodecFrames(Frames):
    """The same, decoded in `__getitem__` as torchcodec's users do."""

    def __getitem__(self, i: int) -> Any:
        from torchcodec.decoders import VideoDecoder

        if not hasattr(self, "decoders"):
            self.decoders: dict[int, Any] = {}
        file, frame = self.asked[i]
        if file not in self.decoders:
            self.decoders[file] = VideoDecoder(self.paths[file], num_ffmpeg_threads=1)
        return self.decoders[file][frame]


def loader_of(library: str, dataset: Frames, workers: int) -> Iterator[Any]:
    """Begin an epoch; workers are started."""
    if library == "videodataset":
        return iter(vd.DataLoader(dataset, batch_size=_LOADED, num_workers=workers, device="cpu"))
    return iter(torch.utils.data.DataLoader(dataset, batch_size=_LOADED, num_workers=workers))


@contextmanager
def spinning() -> Iterator[None]:
    """A thread of this process runs Python code until the block ends."""
    stop = threading.Event()

    def spin() -> None:
        while not stop.is_set():
            sum(k * k for k in range(1000))

    thread = threading.Thread(target=spin)
    thread.start()
    try:
        yield
    finally:
        stop.set()
        thread.join()


def loader_rate(library: str, paths: list[str], count: int, seed: int, seconds: float, workers: int) -> float:
    """Frames per second of a loader, once its workers run."""
    kind = Frames if library == "videodataset" else TorchcodecFrames
    batches = loader_of(library, kind(paths, count, 100_000, seed), workers)
    for _ in range(2 * workers + 1):
        next(batches)
    frames, started = 0, time.perf_counter()
    while time.perf_counter() - started < seconds:
        frames += len(next(batches))
    return frames / (time.perf_counter() - started)


def one_worker_rate(paths: list[str], count: int, seed: int, seconds: float, busy: bool) -> float:
    """Frames per second of this library's loader with one worker, beside an idle or a busy main process."""
    with spinning() if busy else nullcontext():
        return loader_rate("videodataset", paths, count, seed, seconds, 1)


def in_turns(ways: dict[str, Callable[[int], float]], rounds: int) -> dict[str, Any]:
    """Measure ways in turns, forwards and backwards; rates by way, and ratios of the first over each."""
    rates: dict[str, list[float]] = {name: [] for name in ways}
    for turn in range(rounds):
        for name in list(ways) if turn % 2 == 0 else list(ways)[::-1]:
            rates[name].append(ways[name](turn))
    ours = next(iter(rates.values()))
    return {
        name: {
            "frames_per_second": round(statistics.median(each), 1),
            "ours_over_it": round(statistics.median(a / b for a, b in zip(ours, each, strict=True)), 3),
            "rounds": [round(rate, 1) for rate in each],
        }
        for name, each in rates.items()
    }


def batch_rate(reader: Any, files: int, count: int, seed: int, seconds: float) -> float:
    """Frames per second of whole batches."""
    rng = random.Random(seed)
    frames, started = 0, time.perf_counter()
    while time.perf_counter() - started < seconds:
        asked = [(k % files, rng.randrange(count)) for k in range(_BATCH)]
        frames += len(reader.batch(asked))
    return frames / (time.perf_counter() - started)


def pictures(path: str, count: int, shared: bool) -> float:
    """Pictures decoded per frame in batches of 64 of one file: by one plan for all, or by a plan for each."""
    index, rng = load_or_build(path), random.Random(0)
    decoded, batches = 0, 20
    for _ in range(batches):
        asked = [int(index.presentation[rng.randrange(count)]) for _ in range(_BATCH)]
        plans = [plan_runs(index, asked)] if shared else [plan_runs(index, [picture]) for picture in asked]
        decoded += sum(len(run.pictures) for plan in plans for run in plan)
    return decoded / (_BATCH * batches)


def measure(encode: str, options: argparse.Namespace) -> dict[str, Any]:
    """Everything about one encode."""
    clip = make_clip(encode, options.clips)
    paths = copies(clip, _FILES)
    for path in paths:
        load_or_build(path)
    count = len(vd.VideoDecoder(clip, device="cpu"))
    results: dict[str, Any] = {"clip_sha256": digest(clip), "frames": count}
    results["pictures_per_frame_of_one_file"] = {
        "one plan for 64 frames": round(pictures(paths[0], count, shared=True), 2),
        "a plan for each": round(pictures(paths[0], count, shared=False), 2),
    }
    for name, files in (("batch, 64 files", _FILES), ("batch, 1 file", 1)):
        readers: dict[str, Any] = {
            "videodataset": OursInOneCall(paths[:files]),
            "torchcodec, 1 thread": TorchcodecOneByOne(paths[:files], 1),
            "torchcodec, 2 threads": TorchcodecOneByOne(paths[:files], 2),
        }
        asked = [(k % files, random.Random(k).randrange(count)) for k in range(_BATCH)]
        first, *others = (reader.batch(asked) for reader in readers.values())
        assert all(torch.equal(first, other) for other in others), "frames differ"
        results[name] = in_turns(
            {
                library: lambda turn, reader=reader, files=files: batch_rate(
                    reader, files, count, turn, options.seconds
                )
                for library, reader in readers.items()
            },
            options.rounds,
        )
    files, seconds = paths[:_LOADER_FILES], 2 * options.seconds
    results["loader"] = in_turns(
        {
            library: lambda turn, library=library: loader_rate(library, files, count, turn, seconds, _WORKERS)
            for library in ("videodataset", "torchcodec")
        },
        options.rounds,
    )
    results["loader, 1 worker"] = in_turns(
        {
            name: lambda turn, busy=busy: one_worker_rate(files, count, turn, seconds, busy)
            for name, busy in (("main process busy", True), ("main process idle", False))
        },
        options.rounds,
    )
    return results


def show(results: dict[str, Any], console: Console) -> None:
    """Print one table; "over it" is the rate of the first way of the same work over the row's."""
    table = Table(title="Frames per second")
    for column in ("encode", "work", "library", "frames/s", "first over it"):
        table.add_column(column)
    for encode, record in results.items():
        for work, cells in record.items():
            if work.startswith(("batch", "loader")):
                for library, cell in cells.items():
                    row = (f"{cell['frames_per_second']:.0f}", f"{cell['ours_over_it']:.2f}x")
                    table.add_row(encode, work, library, *row)
    console.print(table)
    for encode, record in results.items():
        console.print(encode, record["pictures_per_frame_of_one_file"])


def main() -> None:
    """Parse arguments, measure, print, write the record."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--encodes", nargs="+", default=["x264 default"], choices=list(ENCODES))
    parser.add_argument("--seconds", type=float, default=3, help="at least, per library, work and round")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--clips", type=Path, default=Path(".bench"), help="where clips and their indexes are kept")
    parser.add_argument("--json", type=Path, help="write the record here")
    options = parser.parse_args()
    os.environ.setdefault("VIDEODATASET_INDEX_DIR", str(options.clips.absolute() / "index"))
    console = Console(stderr=True)
    results = {encode: measure(encode, options) for encode in options.encodes}
    show(results, console)
    if options.json:
        options.json.parent.mkdir(parents=True, exist_ok=True)
        options.json.write_text(
            json.dumps({**facts_of_the_run("benchmarks.batches"), "results": results}, indent=1) + "\n"
        )


if __name__ == "__main__":
    main()
