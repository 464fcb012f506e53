"""Frames per second of this library and of others on the CPU: random frames, clips of 16, and in order.

Every library decodes with one thread. Its file is opened before the clock starts and kept open until it stops, then
closed: threads that a library leaves at work (decord2 does) would slow the next one. Rounds take the libraries in
turns, forwards and backwards; a cell is the median over rounds, a ratio the median of the rounds' ratios. Frames are
checked before anything is timed. "in order" reads the whole file 32 frames a call, "in order, singly" one a call.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import statistics
import subprocess
import sys
import time
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

import torch
from rich.console import Console
from rich.table import Table

from benchmarks.clips import ENCODES, digest, make_clip
from benchmarks.readers import READERS, Reader, version_of
from benchmarks.record import facts_of_the_run

OURS = "videodataset"
_CHECKED_FRAMES = 20
_NEIGHBOURS = 2  # looked at on either side of the right frame
_TOLERANCE = 4  # mean difference in levels of 255: more than any colour conversion makes
_CLIP, _CHUNK = 16, 32
_OPENINGS = """
import sys, time, torch, videodataset
def opening():
    started = time.perf_counter()
    videodataset.VideoDecoder(sys.argv[1], device="cpu")
    return 1e3 * (time.perf_counter() - started)
print(opening(), sorted(opening() for _ in range(51))[25])
"""
_IMPORT = "import torch, time; t = time.perf_counter(); import videodataset; print(time.perf_counter() - t)"


def random_frames(reader: Reader, count: int, rng: random.Random, seconds: float) -> int:
    """One frame a call, each a fresh random one."""
    return _for_seconds(seconds, lambda: _calls(reader.frame, [(rng.randrange(count),)]))


def clips_of_16(reader: Reader, count: int, rng: random.Random, seconds: float) -> int:
    """16 frames a call, from a random place."""

    def one() -> int:
        start = rng.randrange(count - _CLIP + 1)
        return _calls(reader.clip, [(start, start + _CLIP)])

    return _for_seconds(seconds, one)


def in_order(reader: Reader, count: int, rng: random.Random, seconds: float) -> int:
    """The whole file, 32 frames a call."""
    ranges = [(start, min(start + _CHUNK, count)) for start in range(0, count, _CHUNK)]
    return _for_seconds(seconds, lambda: _calls(reader.clip, ranges))


def in_order_singly(reader: Reader, count: int, rng: random.Random, seconds: float) -> int:
    """The whole file, one frame a call."""
    return _for_seconds(seconds, lambda: _calls(reader.frame, ((number,) for number in range(count))))


Workload = Callable[[Reader, int, random.Random, float], int]
WORKLOADS: dict[str, Workload] = {
    "random": random_frames,
    "clips of 16": clips_of_16,
    "in order": in_order,
    "in order, singly": in_order_singly,
}


def _calls(call: Callable[..., Any], arguments: Iterable[tuple[int, ...]]) -> int:
    """Make calls; return how many frames they were."""
    frames = 0
    for each in arguments:
        call(*each)
        frames += each[-1] - each[0] if len(each) == 2 else 1
    return frames


def _for_seconds(seconds: float, one: Callable[[], int]) -> int:
    frames, started = 0, time.perf_counter()
    while time.perf_counter() - started < seconds:
        frames += one()
    return frames


def check_frames(libraries: list[str], path: Path, count: int) -> dict[str, Any]:
    """Compare random frames of every library with another decoder's: torchcodec's where installed, else PyAV's.

    Ours has to be the same bits. Another library's frame is wrong if it is too far from the right one, or nearer to a
    neighbour of it, or does not come. Returns the name of the reference; by library how many are equal and how many
    wrong; and the errors of those that cannot open the file.
    """
    numbers = random.Random(0).sample(range(count), _CHECKED_FRAMES)
    near = {n: range(max(n - _NEIGHBOURS, 0), min(n + _NEIGHBOURS + 1, count)) for n in numbers}
    reference = "torchcodec" if version_of("torchcodec") else "PyAV"
    other: Reader = READERS[reference](str(path))
    wanted = {n: other.frame(n).clone() for n in sorted({m for each in near.values() for m in each})}
    facts: dict[str, Any] = {"reference": reference, "checked": len(numbers), "equal": {}, "wrong": {}, "errors": {}}
    for name in libraries:
        equal = wrong = 0
        try:
            reader: Reader = READERS[name](str(path))
        except Exception as error:
            facts["errors"][name] = _told(error)
            continue
        for number in numbers:
            try:
                got = reader.frame(number)
            except Exception as error:
                facts["errors"][name] = _told(error)
                wrong += 1
                continue
            same = torch.equal(got, wanted[number])
            equal += same
            wrong += not same if name == OURS else not same and not _is_right(got, number, near[number], wanted)
        facts["equal"][name], facts["wrong"][name] = equal, wrong
    return facts


def _told(error: Exception) -> str:
    return f"{type(error).__name__}: {error}"[:200]


def _is_right(got: torch.Tensor, number: int, near: Iterable[int], wanted: dict[int, torch.Tensor]) -> bool:
    if got.shape != wanted[number].shape:
        return False
    away = {n: (got.float() - wanted[n].float()).abs().mean().item() for n in near}
    return away[number] <= _TOLERANCE and away[number] == min(away.values())


def measure(encode: str, options: argparse.Namespace, console: Console) -> dict[str, Any]:
    """Measure one encode."""
    import videodataset as vd

    path = make_clip(encode, options.clips)
    count = len(vd.VideoDecoder(path, device="cpu"))
    record: dict[str, Any] = {"clip_sha256": digest(path), "frames": count}
    record["frames_checked"] = check_frames(options.libraries, path, count)
    record["opening"] = opening(path)
    record["workloads"] = {}
    for workload in options.workloads:
        names = list(record["frames_checked"]["equal"])
        record["workloads"][workload] = _in_turns(names, WORKLOADS[workload], path, count, options)
        console.print(f"{encode}, {workload}: done")
    return record


def _in_turns(
    names: list[str], workload: Workload, path: Path, count: int, options: argparse.Namespace
) -> dict[str, Any]:
    rates: dict[str, list[float]] = {name: [] for name in names}
    busy: dict[str, list[float]] = {name: [] for name in names}
    failed: dict[str, str] = {}
    for turn in range(options.rounds):
        for name in list(rates) if turn % 2 == 0 else list(rates)[::-1]:
            try:
                reader: Reader = READERS[name](str(path))
                reader.frame(0)
                started, cpu = time.perf_counter(), time.process_time()
                frames = workload(reader, count, random.Random(turn), options.seconds)
            except Exception as error:
                failed[name] = _told(error)
                del rates[name]
                continue
            spent = time.perf_counter() - started
            rates[name].append(frames / spent)
            busy[name].append((time.process_time() - cpu) / spent)
            del reader  # closes the file and ends its threads
    ours = rates.get(OURS)
    return {
        name: {
            "frames_per_second": round(statistics.median(each), 1),
            "ours_over_it": ours and round(statistics.median(a / b for a, b in zip(ours, each, strict=True)), 3),
            "cores_used": round(statistics.median(busy[name]), 2),  # 1 where one thread is really all there is
            "rounds": [round(rate, 1) for rate in each],
        }
        for name, each in rates.items()
    } | {name: {"error": error} for name, error in failed.items()}


def opening(path: Path) -> dict[str, float]:
    """Milliseconds to index a video, to open it indexed as the first thing a process does, and again after that."""
    import videodataset as vd

    built = []
    for _ in range(3):
        started = time.perf_counter()
        vd.index.load_or_build(path, rebuild=True)
        built.append(1e3 * (time.perf_counter() - started))
    pairs = [subprocess.check_output([sys.executable, "-c", _OPENINGS, str(path)]).split() for _ in range(3)]
    return {
        "index_ms": round(statistics.median(built), 2),
        "first_open_ms": round(statistics.median(float(first) for first, _ in pairs), 2),
        "open_ms": round(statistics.median(float(again) for _, again in pairs), 3),
    }


def import_seconds() -> float:
    """Seconds that `import videodataset` takes after `import torch`; median of 5 processes."""
    times = [float(subprocess.check_output([sys.executable, "-c", _IMPORT])) for _ in range(5)]
    return round(statistics.median(times), 3)


def show(results: dict[str, Any], libraries: list[str], console: Console) -> None:
    """Print one table: frames per second, and in brackets this library's rate over it."""
    table = Table(title="Frames per second, one thread (this library's rate over it)")
    for column in ("encode", "workload", *libraries):
        table.add_column(column)
    for encode, record in results.items():
        checked = record["frames_checked"]
        for workload, cells in record["workloads"].items():
            row = [encode, workload]
            for name in libraries:
                cell, wrong = cells.get(name), checked["wrong"].get(name, 0)
                text = "-"
                if cell and "error" in cell:
                    text = "failed"
                elif cell:
                    text = f"{cell['frames_per_second']:.0f}"
                    if cell["ours_over_it"] and name != OURS:
                        text += f" ({cell['ours_over_it']:.2f}x)"
                row.append(f"{text} [red]wrong frame, {wrong} of {checked['checked']}" if wrong else text)
            table.add_row(*row)
    console.print(table)


def main() -> None:
    """Parse arguments, measure, print, write the record."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--libraries", nargs="+", default=list(READERS), choices=list(READERS))
    parser.add_argument("--encodes", nargs="+", default=list(ENCODES), choices=list(ENCODES))
    parser.add_argument("--workloads", nargs="+", default=list(WORKLOADS), choices=list(WORKLOADS))
    parser.add_argument("--seconds", type=float, default=0.5, help="at least, per library, workload and round")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--clips", type=Path, default=Path(".bench"), help="where clips and their indexes are kept")
    parser.add_argument("--json", type=Path, help="write the record here")
    options = parser.parse_args()
    os.environ.setdefault("VIDEODATASET_INDEX_DIR", str(options.clips.absolute() / "index"))
    torch.set_num_threads(1)
    console = Console(stderr=True, width=None if sys.stderr.isatty() else 160)
    for name in [name for name in options.libraries if version_of(name) is None]:
        console.print(f"{name} is not installed and is left out")
        options.libraries.remove(name)
    results = {encode: measure(encode, options, console) for encode in options.encodes}
    record = {
        **facts_of_the_run("benchmarks.random_access"),
        "import_seconds_after_torch": import_seconds(),
        "results": results,
    }
    show(results, options.libraries, console)
    for encode, each in results.items():
        console.print(f"{encode}: {each['opening']} {each['frames_checked']['errors'] or ''}", highlight=False)
    console.print(f"import after torch: {record['import_seconds_after_torch']} s")
    if options.json:
        options.json.parent.mkdir(parents=True, exist_ok=True)
        options.json.write_text(json.dumps(record, indent=1) + "\n")


if __name__ == "__main__":
    main()
