"""Frames per second of this library and of others on the CPU: random frames, clips of 16, and in order.

Every library decodes with one thread and keeps its file open. Rounds take the libraries in turns, forwards and
backwards; a cell is the median over rounds, a ratio the median of the rounds' ratios. Frames are checked before
anything is timed.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import random
import statistics
import subprocess
import sys
import time
from collections.abc import Callable
from importlib.metadata import version
from pathlib import Path
from typing import Any

import torch
from rich.console import Console
from rich.table import Table

from benchmarks.clips import ENCODES, digest, make_clip
from benchmarks.readers import READERS, version_of

OURS = "videodataset"
_CHECKED_FRAMES = 12
_CLIP, _CHUNK = 16, 32


def random_frames(reader: Any, count: int, rng: random.Random, seconds: float) -> tuple[int, float]:
    """One frame a call, each a fresh random one."""
    return _for_seconds(seconds, 1, lambda _: reader.frame(rng.randrange(count)))


def clips_of_16(reader: Any, count: int, rng: random.Random, seconds: float) -> tuple[int, float]:
    """16 frames a call, from a random place."""

    def one(_: int) -> Any:
        start = rng.randrange(count - _CLIP)
        return reader.clip(start, start + _CLIP)

    return _for_seconds(seconds, _CLIP, one)


def in_order(reader: Any, count: int, rng: random.Random, seconds: float) -> tuple[int, float]:
    """The file from its first frame, 32 frames a call, again from the start at its end."""
    chunks = count // _CHUNK
    return _for_seconds(seconds, _CHUNK, lambda k: reader.clip(k % chunks * _CHUNK, (k % chunks + 1) * _CHUNK))


WORKLOADS: dict[str, Callable[[Any, int, random.Random, float], tuple[int, float]]] = {
    "random": random_frames,
    "clips of 16": clips_of_16,
    "in order": in_order,
}


def _for_seconds(seconds: float, frames_a_call: int, one: Callable[[int], Any]) -> tuple[int, float]:
    calls, started = 0, time.perf_counter()
    while True:
        one(calls)
        calls += 1
        spent = time.perf_counter() - started
        if spent >= seconds:
            return calls * frames_a_call, spent


def right_frames(readers: dict[str, Any], count: int, rng: random.Random) -> dict[str, str]:
    """Compare every library's frames with this library's: "equal", "close" (the right picture), or how many are not."""
    numbers, verdicts = rng.sample(range(count), _CHECKED_FRAMES), {}
    for name, reader in readers.items():
        equal = wrong = 0
        for number in numbers:
            want = readers[OURS].frame(number)
            try:
                got = reader.frame(number)
            except Exception:
                wrong += 1
                continue
            equal += torch.equal(want, got)
            wrong += (want.float() - got.float()).abs().mean().item() > 4
        verdicts[name] = f"{wrong} of {len(numbers)} wrong" if wrong else "equal" if equal == len(numbers) else "close"
    return verdicts


def measure(encode: str, options: argparse.Namespace, console: Console) -> dict[str, Any]:
    """Measure one encode."""
    import videodataset as vd

    path = make_clip(encode, options.clips)
    count = len(vd.VideoDecoder(path, device="cpu"))
    readers, errors = {}, {}
    for name in options.libraries:
        try:
            readers[name] = READERS[name](str(path))
            readers[name].frame(0)
        except Exception as error:
            readers.pop(name, None)
            errors[name] = f"{type(error).__name__}: {error}"[:200]
    record: dict[str, Any] = {"clip_sha256": digest(path), "frames": count, "errors": errors, "workloads": {}}
    record["frames_checked"] = right_frames(readers, count, random.Random(0))
    for workload in options.workloads:
        rates: dict[str, list[float]] = {name: [] for name in readers}
        for turn in range(options.rounds):
            names = list(readers) if turn % 2 == 0 else list(readers)[::-1]
            for name in names:
                frames, spent = WORKLOADS[workload](readers[name], count, random.Random(turn), options.seconds)
                rates[name].append(frames / spent)
        record["workloads"][workload] = {
            name: {
                "frames_per_second": round(statistics.median(each), 1),
                "ours_over_it": round(statistics.median(a / b for a, b in zip(rates[OURS], each, strict=True)), 3),
                "rounds": [round(rate, 1) for rate in each],
            }
            for name, each in rates.items()
        }
        console.print(f"{encode}, {workload}: done")
    return record


def opening(path: Path) -> dict[str, float]:
    """Milliseconds to open a video whose index is saved; and to index it."""
    import videodataset as vd

    started = time.perf_counter()
    vd.index.load_or_build(path, rebuild=True)
    built = time.perf_counter() - started
    times = []
    for _ in range(50):
        started = time.perf_counter()
        vd.VideoDecoder(path, device="cpu")
        times.append(time.perf_counter() - started)
    return {"open_ms": round(1e3 * statistics.median(times), 3), "index_ms": round(1e3 * built, 2)}


def import_seconds() -> float:
    """Seconds that `import videodataset` takes after `import torch`; median of 5 processes."""
    code = "import torch, time; t = time.perf_counter(); import videodataset; print(time.perf_counter() - t)"
    times = [float(subprocess.check_output([sys.executable, "-c", code])) for _ in range(5)]
    return round(statistics.median(times), 3)


def processor() -> str:
    """Return the processor's name."""
    names = [
        line.split(":")[1].strip() for line in Path("/proc/cpuinfo").read_text().splitlines() if "model name" in line
    ]
    return names[0] if names else platform.processor()


def show(results: dict[str, Any], libraries: list[str], console: Console) -> None:
    """Print one table: frames per second, and in brackets this library's rate over it."""
    table = Table(title="Frames per second, one thread (this library's rate over it)")
    for column in ("encode", "workload", *libraries):
        table.add_column(column)
    for encode, record in results.items():
        for workload, cells in record["workloads"].items():
            row = [encode, workload]
            for name in libraries:
                cell, verdict = cells.get(name), record["frames_checked"].get(name, "")
                text = "-" if cell is None else f"{cell['frames_per_second']:.0f}"
                if cell is not None and name != OURS:
                    text += f" ({cell['ours_over_it']:.2f}x)"
                row.append(f"{text} [red]{verdict}" if "wrong" in verdict else text)
            table.add_row(*row)
    console.print(table)


def main() -> None:
    """Parse arguments, measure, print, write the record."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--libraries", nargs="+", default=list(READERS), choices=list(READERS))
    parser.add_argument("--encodes", nargs="+", default=list(ENCODES), choices=list(ENCODES))
    parser.add_argument("--workloads", nargs="+", default=list(WORKLOADS), choices=list(WORKLOADS))
    parser.add_argument("--seconds", type=float, default=1.0, help="per library, workload and round")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--clips", type=Path, default=Path(".bench"), help="where the clips are kept")
    parser.add_argument("--json", type=Path, help="write the record here")
    options = parser.parse_args()
    torch.set_num_threads(1)
    console = Console(stderr=True, width=None if sys.stderr.isatty() else 160)
    missing = [name for name in options.libraries if version_of(name) is None and name != OURS]
    options.libraries = [name for name in options.libraries if name not in missing]
    results = {encode: measure(encode, options, console) for encode in options.encodes}
    first = make_clip(options.encodes[0], options.clips)
    record = {
        "command": " ".join(["python -m benchmarks.random_access", *sys.argv[1:]]),
        "date": time.strftime("%Y-%m-%d"),
        "machine": {"processor": processor(), "cores": os.cpu_count(), "python": platform.python_version()},
        "versions": {name: version_of(name) for name in READERS} | {"torch": version("torch")},
        "import_seconds_after_torch": import_seconds(),
        "opening": opening(first),
        "results": results,
    }
    show(results, options.libraries, console)
    console.print(
        f"open an indexed video: {record['opening']}; import after torch: {record['import_seconds_after_torch']} s"
    )
    if options.json:
        options.json.parent.mkdir(parents=True, exist_ok=True)
        options.json.write_text(json.dumps(record, indent=1) + "\n")


if __name__ == "__main__":
    main()
