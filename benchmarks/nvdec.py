"""What this library gives of what the decode hardware gives, as RGB on the GPU through the public API; and its peers.

A row is one clip and one workload. Files are copies of the clip, all opened before the clock starts. The ceiling is
nvdec_ceiling.cpp: the same driver calls and nothing else, on one stream in memory; it runs before and after, and the
mean is taken. Rows are written as they come, and a second call with the same --json adds to them, or replaces them.

    python -m benchmarks.nvdec --make-clips DIR        where ffmpeg is
    python -m benchmarks.nvdec --clips DIR             where the GPU is
"""

from __future__ import annotations

import argparse
import json
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

import torch
from rich.console import Console
from rich.table import Table

import videodataset as vd
from benchmarks.ceiling import Ceiling, build
from benchmarks.clips import GPU_ENCODES, digest, make_gpu_clip
from benchmarks.nvdec_peers import torchcodec
from benchmarks.nvdec_workloads import SMALL, Files, measure
from benchmarks.record import facts_of_the_run
from videodataset.plan import plan_runs

#: Clip, workload, transform ("full" is uint8 at full size), the ceiling's mode, what is asked of it.
ROWS = [
    ("hevc_g8", "random", "full", "rand", 0.95),
    ("hevc_g8", "random", "small", "rand", 0.95),
    ("x264", "random", "full", "skip", 0.95),
    ("x265", "random", "full", "skip", 0.95),
    ("hevc_15b", "random", "full", "skip", 0.95),
    ("h264_15b", "random", "full", "skip", 0.95),
    ("hevc_g8", "clips of 16", "small", "map", 0.90),
    ("hevc_15b", "clips of 16", "small", "map", 0.90),
    ("hevc_g8", "in order", "full", "map", 0.90),
    ("x264", "in order", "full", "map", 0.90),
    ("hevc_224", "random", "full", "rand", 0.90),
    ("hevc_720", "random", "full", "rand", 0.90),
    ("hevc_1080", "random", "full", "rand", 0.90),
    ("hevc_1080", "in order", "small", "map", 0.90),
    ("hevc_900_g30", "six cameras, random", "small", "rand", 0.95),
    ("hevc_900_g30", "six cameras, in order", "small", "map", 0.90),
]
#: Clip, frames a call, by how much torchcodec on the GPU should be passed.
PEER_ROWS = [
    ("hevc_g8", 1, 1.3), ("x264", 1, 2.0), ("x265", 1, 2.0), ("hevc_15b", 1, 3.5),
    ("hevc_g8", 16, 1.15), ("x264", 16, 1.6), ("x265", 16, 1.6), ("hevc_15b", 16, 2.5),
]  # fmt: skip
_SESSIONS = {"map": 28}
_CHECKED, _TOLERANCE = 20, 3


def copies(clip: Path, count: int, folder: Path) -> Files:
    """Copy a clip under other names, and open every copy."""
    target = folder / clip.stem
    target.mkdir(parents=True, exist_ok=True)
    paths = [str(target / f"{k:04}.mp4") for k in range(count)]
    for path in paths:
        if not Path(path).exists():
            shutil.copy(clip, path)
    subprocess.run([sys.executable, "-m", "videodataset", "index", str(target)], check=True, stdout=subprocess.DEVNULL)
    decoders = [vd.VideoDecoder(path, device="cpu") for path in paths]
    return Files(paths, len(decoders[0]))


def check(files: Files) -> None:
    """Compare frames with those of the CPU, from which the hardware's colour conversion may be 3 codes away."""
    refs = [vd.FrameRef(files.paths[k], k * 7919 % files.frames) for k in range(_CHECKED)]
    away = (vd.decode(refs, device="cuda").cpu().int() - vd.decode(refs, device="cpu").int()).abs()
    if away.max() > _TOLERANCE:
        raise RuntimeError(f"{files.paths[0]}: frames are {int(away.max())} codes away from those of the CPU")


def needed_per_frame(files: Files, count: int = 400, length: int = 16) -> float:
    """Pictures that the plan feeds for each frame of random clips."""
    video = vd.VideoDecoder(files.paths[0], device="cpu")._video
    generator = torch.Generator().manual_seed(0)
    fed = 0
    for first in torch.randint(files.frames - length + 1, (count,), generator=generator).tolist():
        pictures = video.index.presentation[first : first + length].tolist()
        fed += sum(len(run.pictures) for run in plan_runs(video.index, pictures))
    return fed / (count * length)


def row(what: tuple[str, str, str, str, float], files: Files, ceiling: Ceiling, seconds: float) -> Any:
    """Measure one of ROWS."""
    clip, workload, size, mode, asked = what
    sessions = _SESSIONS.get(mode, 14)
    modes = [(mode, sessions), ("ahead", 14)]
    before = {each: ceiling.run(each, count, seconds / 2) for each, count in modes}
    ours = measure(workload, files, SMALL if size == "small" else None, seconds)
    after = {each: ceiling.run(each, count, seconds / 2) for each, count in modes}
    served = (before[mode]["served_per_s"] + after[mode]["served_per_s"]) / 2
    per_frame = needed_per_frame(files) if workload == "clips of 16" else 1.0
    cores = (before["ahead"]["cores"] + after["ahead"]["cores"]) / 2
    return {
        "clip": clip, "workload": workload, "size": size, "asked_of_ceiling": asked,
        "ours": ours, "ceiling_mode": mode, "pictures_per_frame": round(per_frame, 3),
        "ceiling_frames_per_s": round(served / per_frame),
        "of_ceiling": round(ours["frames_per_s"] * per_frame / served, 3),
        "cores_over_ahead": round(ours["cores"] / cores, 2), "ceiling": [before, after],
    }  # fmt: skip


def peers(clip: str, frames: int, asked: float, files: Files, threads: list[int], seconds: float) -> Any:
    """Measure torchcodec on the GPU, its best number of threads, beside this library."""
    ours = [measure("random" if frames == 1 else "16 random of one file", files, None, seconds / 2)]
    theirs = [torchcodec(files, count, "cuda", frames, seconds) for count in threads]
    ours.append(measure("random" if frames == 1 else "16 random of one file", files, None, seconds / 2))
    rate = sum(each["frames_per_s"] for each in ours) / 2
    best = max(theirs, key=lambda each: each.get("frames_per_s", 0))
    result: dict[str, Any] = {"clip": clip, "frames_a_call": frames, "asked": asked, "ours": ours, "torchcodec": theirs}
    if "frames_per_s" in best:
        result["ours_over_it"] = round(rate / best["frames_per_s"], 2)
    if clip == "hevc_g8" and frames == 1:
        cpu = torchcodec(files, 16, "cpu", frames, seconds)
        result["torchcodec_cpu"] = cpu
        if "frames_per_s" in cpu:
            result["ours_over_its_cpu"] = round(rate / cpu["frames_per_s"], 2)
    return result


_FIRST = """
import sys, time, torch
started = time.perf_counter()
import videodataset as vd
def first(path):
    begun = time.perf_counter()
    vd.decode([vd.FrameRef(path, 5)], device="cuda").sum().item()
    return time.perf_counter() - begun
first(sys.argv[1])
cold = time.perf_counter() - started
print(cold, *(first(path) for path in sys.argv[2:]))
"""


def first_frames(clips: dict[str, Path]) -> Any:
    """Seconds to the first frame in a fresh process after `import torch`, and of other sizes in that process."""
    names = [name for name in ("hevc_224", "hevc_720", "hevc_900_g30", "hevc_1080") if name in clips]
    command = [sys.executable, "-c", _FIRST, str(clips["hevc_g8"]), *(str(clips[name]) for name in names)]
    runs = [[float(each) for each in subprocess.check_output(command, text=True).split()] for _ in range(3)]
    cold, *others = runs[-1]
    of_others = {name: round(1e3 * s, 1) for name, s in zip(names, others, strict=True)}
    return {"cold_s": round(cold, 3), "of_another_size_ms": of_others}


def show(record: dict[str, Any], console: Console) -> None:
    """Print the record."""
    table = Table(title="RGB on the GPU through videodataset.DataLoader")
    for name in ("clip", "workload", "size", "frames/s", "ceiling", "of it", "asked", "cores", "over ahead", "NVDEC %"):
        table.add_column(name)
    for each in record["rows"].values():
        ours = each["ours"]
        table.add_row(each["clip"], each["workload"], each["size"], str(ours["frames_per_s"]),
                      f"{each['ceiling_frames_per_s']} ({each['ceiling_mode']})", str(each["of_ceiling"]),
                      str(each["asked_of_ceiling"]), str(ours["cores"]), str(each["cores_over_ahead"]),
                      str(ours["nvdec_percent"]))  # fmt: skip
    console.print(table)
    for each in record["peers"].values():
        best = max((t.get("frames_per_s", 0), t["threads"]) for t in each["torchcodec"])
        console.print(f"{each['clip']}, {each['frames_a_call']} a call: {each.get('ours_over_it')} x torchcodec CUDA "
                      f"({best[0]} with {best[1]} threads), asked {each['asked']}; "
                      f"over its CPU: {each.get('ours_over_its_cpu')}")  # fmt: skip
    console.print(record.get("first_frames"))


def main() -> None:
    """Parse arguments, measure, print, write the record."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--clips", type=Path, default=Path(".bench/gpu_clips"))
    parser.add_argument("--make-clips", type=Path, help="make the clips in this folder, and end")
    parser.add_argument("--files", type=int, default=504, help="copies of each clip")
    parser.add_argument("--only", nargs="*", help="rows whose clip or workload is one of these")
    parser.add_argument("--skip", nargs="*", default=[], choices=["rows", "peers", "first"])
    parser.add_argument("--threads", nargs="*", type=int, default=[8, 16, 32], help="of torchcodec")
    parser.add_argument("--seconds", type=float, default=4)
    parser.add_argument("--folder", type=Path, default=Path(tempfile.gettempdir()) / "videodataset_bench")
    parser.add_argument("--json", type=Path)
    options = parser.parse_args()
    if options.make_clips:
        for name in GPU_ENCODES:
            print(make_gpu_clip(name, options.make_clips))
        return
    console = Console(width=150)
    gpu = torch.cuda.get_device_name().removeprefix("NVIDIA ").replace(" ", "_").lower()
    target = options.json or Path("benchmarks/results") / f"{gpu}.json"
    record: dict[str, Any] = {"rows": {}, "peers": {}, "runs": []}
    if target.exists():
        record = json.loads(target.read_text())
    record["runs"].append({**facts_of_the_run("benchmarks.nvdec"), "gpu": gpu, "cuda_driver": _driver()})
    clips = {name: options.clips / f"{name}.mp4" for name in GPU_ENCODES if (options.clips / f"{name}.mp4").exists()}
    record["clips_sha256"] = {name: digest(path) for name, path in clips.items()}
    options.folder.mkdir(parents=True, exist_ok=True)
    program = build(options.folder)

    def chosen(*names: Any) -> bool:
        return names[0] in clips and (not options.only or any(name in options.only for name in names))

    def keep() -> None:
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_text(json.dumps(record, indent=1) + "\n")

    made: dict[str, Files] = {}

    def files(clip: str) -> Files:
        if clip not in made:
            made[clip] = copies(clips[clip], options.files, options.folder)
            check(made[clip])
        return made[clip]

    if "first" not in options.skip:
        record["first_frames"] = first_frames(clips)
        keep()
    for what in ROWS if "rows" not in options.skip else []:
        clip, workload, size, *_ = what
        if chosen(clip, workload):
            opened, ceiling = files(clip), Ceiling(program, clips[clip], options.folder)
            result = row(what, opened, ceiling, options.seconds)
            record["rows"][f"{clip}, {workload}, {size}"] = result
            console.print(clip, workload, size, result["ours"]["frames_per_s"], "of ceiling", result["of_ceiling"])
            keep()
    for clip, frames, asked in PEER_ROWS if "peers" not in options.skip else []:
        if chosen(clip, "peers"):
            result = peers(clip, frames, asked, files(clip), options.threads, options.seconds)
            record["peers"][f"{clip}, {frames} a call"] = result
            console.print(clip, frames, "a call: over torchcodec", result.get("ours_over_it"))
            keep()
    show(record, console)


def _driver() -> str | None:
    try:
        command = ["nvidia-smi", "--query-gpu=driver_version", "--format=csv,noheader"]
        return subprocess.check_output(command, text=True).strip().splitlines()[0]
    except (OSError, subprocess.CalledProcessError, IndexError):
        return None


if __name__ == "__main__":
    main()
