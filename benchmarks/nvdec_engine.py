"""What the NVDEC engine gives of what the hardware gives, on a machine with an NVIDIA GPU.

planes   `NvdecEngine` alone: random single frames into slots in device memory, no conversion
rgb      `videodataset.decode`: the same as uint8 RGB at full size, one batch after another

The ceiling is a program that makes the same driver calls and nothing else, on one elementary stream in memory; its
modes `ahead` and `skip` serve random frames with needed pictures only. It is run before and after, and the mean taken.
Files are copies of the clips, so that each read goes to another file.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import shutil
import subprocess
import sys
import time
from collections import deque
from pathlib import Path
from typing import Any

import torch

import videodataset as vd
from videodataset.decode.engine import DecodeRun
from videodataset.decode.nvdec import NvdecEngine, device_slots, nvdec_engine, surface_format
from videodataset.plan import plan_runs
from videodataset.videos import Video, videos


def cpu_seconds() -> float:
    """Processor time of this process and all its threads."""
    times = os.times()
    return times.user + times.system


def planes_rate(engine: NvdecEngine, opened: list[Video], batch: int, ahead: int, seconds: float) -> dict[str, float]:
    """Random single frames a second into slots, `ahead` batches in flight."""
    rng = random.Random(0)
    surface = surface_format(opened[0].index.info)
    assert surface is not None
    memory = [torch.empty((batch, surface.size_bytes), dtype=torch.uint8, device="cuda") for _ in range(ahead + 1)]
    slots = [device_slots(rows, surface) for rows in memory]

    def submit(number: int) -> Any:
        runs = []
        for slot in slots[number % len(slots)]:
            video = rng.choice(opened)
            picture = int(video.index.presentation[rng.randrange(len(video.index))])
            (run,) = plan_runs(video.index, [picture])
            runs.append(DecodeRun(video.storage, video.index, run, {picture: slot}))
        return engine.submit(runs)

    def settle(ticket: Any) -> None:
        for errors in ticket.wait():
            if errors:
                raise next(iter(errors.values()))

    in_flight = deque(submit(k) for k in range(ahead))
    for k in range(ahead, 4 * ahead):  # decoders are made, files opened
        settle(in_flight.popleft())
        in_flight.append(submit(k))
    served, number, before = 0, 4 * ahead, engine.statistics()
    started, cpu = time.perf_counter(), cpu_seconds()
    while time.perf_counter() - started < seconds:
        settle(in_flight.popleft())
        served += batch
        in_flight.append(submit(number))
        number += 1
    spent, used, after = time.perf_counter() - started, cpu_seconds() - cpu, engine.statistics()
    while in_flight:
        settle(in_flight.popleft())
    torch.cuda.synchronize()
    return {
        "served_per_s": round(served / spent),
        "decoded_per_s": round((after["pictures_decoded"] - before["pictures_decoded"]) / spent),
        "cores": round(used / spent, 2),
    }


def rgb_rate(paths: list[str], counts: list[int], batch: int, seconds: float) -> dict[str, float]:
    """Random single frames a second through `videodataset.decode`, one call after another."""
    rng = random.Random(1)

    def one() -> None:
        chosen = [rng.randrange(len(paths)) for _ in range(batch)]
        vd.decode([vd.FrameRef(paths[k], rng.randrange(counts[k])) for k in chosen], device="cuda")

    for _ in range(3):
        one()
    torch.cuda.synchronize()
    served, started, cpu = 0, time.perf_counter(), cpu_seconds()
    while time.perf_counter() - started < seconds:
        one()
        served += batch
    torch.cuda.synchronize()
    spent, used = time.perf_counter() - started, cpu_seconds() - cpu
    return {"served_per_s": round(served / spent), "cores": round(used / spent, 2)}


def ceiling(program: Path, stream: Path, mode: str, sessions: int, seconds: float) -> dict[str, Any]:
    """Run the ceiling program on an elementary stream beside its index."""
    command = [str(program), str(stream), str(stream.with_suffix(".idx")), stream.suffix[1:], mode]
    output = subprocess.check_output([*command, str(sessions), str(seconds)], text=True)
    result: dict[str, Any] = json.loads(output)
    return result


def main() -> None:
    """Parse arguments, measure, print, write the record."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("clips", nargs="+", type=Path, help="MP4 files; beside each its elementary stream and index")
    parser.add_argument("--ceiling", type=Path, required=True, help="the ceiling program")
    parser.add_argument("--copies", type=int, default=500)
    parser.add_argument("--batch", type=int, default=64)
    parser.add_argument("--ahead", type=int, default=6)
    parser.add_argument("--sessions", type=int, default=14)
    parser.add_argument("--seconds", type=float, default=4)
    parser.add_argument("--folder", type=Path, default=Path("/tmp/videodataset_bench"))
    parser.add_argument("--json", type=Path)
    options = parser.parse_args()
    engine = nvdec_engine(torch.device("cuda"))
    record: dict[str, Any] = {
        "command": " ".join(["python -m benchmarks.nvdec_engine", *sys.argv[1:]]),
        "date": time.strftime("%Y-%m-%d"),
        "gpu": torch.cuda.get_device_name(),
        "torch": torch.__version__,
        "cores": os.cpu_count(),
        "results": {},
    }
    for clip in options.clips:
        folder = options.folder / clip.stem
        folder.mkdir(parents=True, exist_ok=True)
        paths = [str(folder / f"{k:04}.mp4") for k in range(options.copies)]
        for path in paths:
            if not Path(path).exists():
                shutil.copy(clip, path)
        opened = [videos.open(path) for path in paths]
        stream = next(p for p in (clip.with_suffix(".hevc"), clip.with_suffix(".h264")) if p.exists())
        counts = [len(video.index) for video in opened]
        modes = ("ahead", "skip")
        before = {mode: ceiling(options.ceiling, stream, mode, options.sessions, options.seconds / 2) for mode in modes}
        planes = planes_rate(engine, opened, options.batch, options.ahead, options.seconds)
        rgb = rgb_rate(paths, counts, options.batch, options.seconds)
        after = {mode: ceiling(options.ceiling, stream, mode, options.sessions, options.seconds / 2) for mode in modes}
        top = {mode: (before[mode]["served_per_s"] + after[mode]["served_per_s"]) / 2 for mode in modes}
        record["results"][clip.stem] = {
            "ceiling": {mode: [before[mode], after[mode]] for mode in modes},
            "planes": {**planes, "of_ahead": round(planes["served_per_s"] / top["ahead"], 3)},
            "rgb, one call after another": {**rgb, "of_skip": round(rgb["served_per_s"] / top["skip"], 3)},
        }
        print(clip.stem, json.dumps(record["results"][clip.stem]), flush=True)
    record["engine"] = engine.statistics()
    print(record["engine"])
    if options.json:
        options.json.parent.mkdir(parents=True, exist_ok=True)
        options.json.write_text(json.dumps(record, indent=1) + "\n")


if __name__ == "__main__":
    main()
