"""The planned shuffle: pictures decoded for each frame, how mixed batches are, and frames/s against a full shuffle.

Data: every frame of copies of a clip under other names, each a sample. Pictures are counted from the plans of a whole
epoch, without decoding. Frames/s are of `vd.DataLoader` to 224x224, both orders in turns, the median of the turns.

    python -m benchmarks.gop_shuffle --clips DIR [--json FILE]      clips of `benchmarks.nvdec --make-clips DIR`
"""

from __future__ import annotations

import argparse
import json
import shutil
import statistics
import tempfile
import time
from dataclasses import asdict
from itertools import islice
from pathlib import Path
from typing import Any

import numpy as np
import torch
from rich.console import Console
from rich.table import Table
from torch.utils.data import Dataset

import videodataset as vd
from benchmarks.clips import digest
from benchmarks.record import facts_of_the_run
from videodataset.plan import plan_runs
from videodataset.videos import videos

_CLIPS = ("hevc_g8", "x264", "hevc_15b", "hevc_900_g30")
_COPIES, _WINDOWS, _BATCH, _TIMED_WINDOW = 60, (1024, 4096, 16384), 64, 1024
_SMALL = vd.Transform(size=(224, 224), dtype=torch.bfloat16)


class Frames(Dataset[Any], vd.BaseVideoDataset):
    """Every frame of every video."""

    def __init__(self, paths: list[str]) -> None:
        self.paths = paths
        counts = [len(videos.open(path).index) for path in paths]
        self.video = np.repeat(np.arange(len(paths)), counts)
        self.first = np.concatenate([np.arange(count) for count in counts])

    def __len__(self) -> int:
        return len(self.video)

    def __getitem__(self, i: int) -> Any:
        return self.frames(self.paths[self.video[i]], int(self.first[i]))

    def frame_table(self) -> vd.FrameTable:
        return vd.FrameTable(self.paths, self.video, self.first, np.ones(len(self)))


def pictures(dataset: Frames, order: Any, window: int) -> int:
    """Pictures that are fed for an order whose stretches of `window` samples are planned together."""
    fed = 0
    for start in range(0, len(order), window):
        asked: dict[int, list[int]] = {}
        for i in order[start : start + window]:
            video = int(dataset.video[i])
            index = videos.open(dataset.paths[video]).index
            asked.setdefault(video, []).append(int(index.presentation[dataset.first[i]]))
        for video, numbers in asked.items():
            fed += sum(len(run.pictures) for run in plan_runs(videos.open(dataset.paths[video]).index, numbers))
    return fed


def rates(dataset: Frames, device: str, seconds: float, turns: int) -> dict[str, float]:
    """Frames/s of a full shuffle and of the planned one."""
    sampler = vd.GopShuffleSampler(dataset, window=_TIMED_WINDOW)
    loaders = {
        "full": vd.DataLoader(dataset, _BATCH, shuffle=True, seed=0, device=device, transform=_SMALL),
        "planned": vd.DataLoader(dataset, _BATCH, sampler=sampler, seed=0, device=device, transform=_SMALL),
    }
    measured: dict[str, list[float]] = {name: [] for name in loaders}
    for _ in range(turns):
        for name, loader in loaders.items():
            batches = iter(loader)
            next(batches)
            together = _TIMED_WINDOW // _BATCH if name == "planned" else 1
            began, frames = time.perf_counter(), 0
            while time.perf_counter() - began < seconds:  # whole windows: the cost of one falls on its first batch
                frames += sum(len(batch) for batch in islice(batches, together))
            if device == "cuda":
                torch.cuda.synchronize()
            measured[name].append(frames / (time.perf_counter() - began))
            batches.close()
    return {name: statistics.median(values) for name, values in measured.items()}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--clips", type=Path, required=True)
    parser.add_argument("--seconds", type=float, default=4.0)
    parser.add_argument("--turns", type=int, default=3)
    parser.add_argument("--json", type=Path)
    arguments = parser.parse_args()
    device = "cuda" if torch.cuda.is_available() else "cpu"
    table = Table(title=f"batches of {_BATCH}, {device}; in parentheses: a full shuffle")
    for column in (
        "clip",
        "window",
        "pictures/frame (…)",
        "same video (…)",
        "nearest (…)",
        "frames/s over full shuffle",
    ):
        table.add_column(column)
    rows: list[dict[str, Any]] = []
    for name in _CLIPS:
        clip = arguments.clips / f"{name}.mp4"
        with tempfile.TemporaryDirectory() as folder:
            dataset = Frames([str(shutil.copy(clip, Path(folder) / f"{k}.mp4")) for k in range(_COPIES)])
            rate = rates(dataset, device, arguments.seconds, arguments.turns)
            full = pictures(dataset, np.random.default_rng(0).permutation(len(dataset)), _BATCH) / len(dataset)
            for window in _WINDOWS:
                sampler = vd.GopShuffleSampler(dataset, window=window)
                mixing = sampler.mixing(_BATCH)
                row = {
                    "clip": name, "sha256": digest(clip), "window": window, "samples": len(dataset),
                    "pictures_per_frame": pictures(dataset, sampler.order(), window) / len(dataset),
                    "pictures_per_frame_in_full_shuffle": full, **asdict(mixing),
                }  # fmt: skip
                if window == _TIMED_WINDOW:
                    row |= {"frames_per_s": rate["planned"], "frames_per_s_in_full_shuffle": rate["full"]}
                rows.append(row)
                table.add_row(
                    name, str(window), f"{row['pictures_per_frame']:.4f} ({full:.2f})",
                    f"{mixing.same_video:.4f} ({mixing.same_video_in_full_shuffle:.4f})",
                    f"{mixing.neighbour_frames:.0f} ({mixing.neighbour_frames_in_full_shuffle:.0f})",
                    f"{rate['planned'] / rate['full']:.2f}" if window == _TIMED_WINDOW else "",
                )  # fmt: skip
    Console().print(table)
    if arguments.json:
        facts = facts_of_the_run("benchmarks.gop_shuffle") | {"device": device}
        arguments.json.write_text(json.dumps(facts | {"rows": rows}, indent=1) + "\n")


if __name__ == "__main__":
    main()
