"""What a loader does, in numbers."""

from __future__ import annotations

import time
from collections import Counter, deque
from collections.abc import Callable
from dataclasses import asdict, dataclass
from typing import Any, NamedTuple

import numpy as np
import torch

from videodataset.data.resolve import DecodedBatch
from videodataset.fetch import Work

_WAITS_KEPT = 10_000


class SkippedCount(NamedTuple):
    """How many samples of a file were left out for one reason.

    Attributes:
        source: the file, or what stands for it in messages.
        reason: name of the error's class.
        samples: how many.
        message: the first one's error.
    """

    source: str
    reason: str
    samples: int
    message: str


@dataclass(frozen=True)
class LoaderStatistics:
    """What a loader has done in the epoch that runs, or in the last one.

    Attributes:
        epoch: its number.
        batches: handed to the loop.
        frames: asked for in these batches.
        seconds: since the epoch began.
        frames_per_second: `frames / seconds`, the loop's own time included.
        first_batch_seconds: until the first batch was there; not part of what follows.
        wait_seconds_p50: median of how long the loop waited for a batch, over the last 10,000.
        wait_seconds_p95: 95th percentile of the same.
        wait_share: share of the time since the first batch that the loop waited.
        batches_ahead: batches that this process had begun to decode behind the one last handed out; 0 where workers
            decode.
        pictures_decoded: pictures that decoders were fed for the frames; above `frames`, since a frame is decoded from
            the sync picture before it.
        pictures_skipped: pictures that lie between and were left out.
        bytes_read: bytes of the packets fed.
        fallbacks: frames that a GPU was to decode and the CPU did.
        cache_hits: frames that the cache held; they are not decoded.
        nvdec_utilization: percent of the last moments in which the GPU's decoders were busy, by NVML; None without a
            GPU or without the package `nvidia-ml-py`.
        samples_skipped: samples left out by `on_error="skip"`.
        skipped: the same by file and reason, the most frequent first.
    """

    epoch: int
    batches: int
    frames: int
    seconds: float
    frames_per_second: float
    first_batch_seconds: float
    wait_seconds_p50: float
    wait_seconds_p95: float
    wait_share: float
    batches_ahead: int
    pictures_decoded: int
    pictures_skipped: int
    bytes_read: int
    fallbacks: int
    cache_hits: int
    nvdec_utilization: int | None
    samples_skipped: int
    skipped: tuple[SkippedCount, ...]

    def as_dict(self) -> dict[str, Any]:
        """Return plain numbers, texts and lists, for JSON."""
        return asdict(self) | {"skipped": [each._asdict() for each in self.skipped]}

    def __str__(self) -> str:
        """One line, for a progress bar."""
        per_frame = self.pictures_decoded / self.frames if self.frames else 0.0
        parts = [
            f"{self.frames_per_second:,.0f} frames/s",
            f"waiting {self.wait_share:.1%}",
            f"{per_frame:.1f} pictures/frame",
        ]
        if self.nvdec_utilization is not None:
            parts.append(f"NVDEC {self.nvdec_utilization}%")
        if self.cache_hits:
            parts.append(f"cache {self.cache_hits / self.frames:.0%}")
        for count, name in ((self.fallbacks, "fallbacks"), (self.samples_skipped, "skipped")):
            if count:
                parts.append(f"{count:,} {name}")
        return ", ".join(parts)


def told(statistics: LoaderStatistics, files: int = 5) -> str:
    """Return a report of the samples that were left out, with the files that lost most."""
    listed = [f"{each.samples} of {each.source} ({each.reason}: {each.message})" for each in statistics.skipped[:files]]
    more = len(statistics.skipped) - len(listed)
    return (
        f"epoch {statistics.epoch}: {statistics.samples_skipped} samples were left out: {'; '.join(listed)}"
        f"{f'; and {more} more, in statistics().skipped' if more else ''}"
    )


def tensorboard(writer: Any, prefix: str = "loader") -> Callable[[LoaderStatistics], None]:
    """Return a callback for `DataLoader(report=...)` that writes every number to TensorBoard.

    Args:
        writer: a `SummaryWriter`, or anything with its `add_scalar`.
        prefix: what the names begin with.

    The step is the number of batches over all epochs that this callback has heard of.
    """
    before: dict[int, int] = {}

    def report(statistics: LoaderStatistics) -> None:
        before[statistics.epoch] = statistics.batches
        step = sum(before.values())
        for name, value in statistics.as_dict().items():
            if isinstance(value, (int, float)) and name not in ("epoch", "batches"):
                writer.add_scalar(f"{prefix}/{name}", value, step)

    return report


class Recorder:
    """Counts for one loader.

    Args:
        device: where its frames go.
    """

    def __init__(self, device: torch.device) -> None:
        self._device = device
        self.begin(0)

    def begin(self, epoch: int) -> None:
        """Begin an epoch."""
        self._epoch, self._began = epoch, time.perf_counter()
        self._last = self._began
        self._batches = self._frames = self._ahead = 0
        self._first_batch = self._waited = 0.0
        self._waits: deque[float] = deque(maxlen=_WAITS_KEPT)
        self._work = Work()
        self._skipped: Counter[tuple[str, str]] = Counter()
        self._messages: dict[tuple[str, str], str] = {}

    def handed(self, asked: float) -> None:
        """Note that the loop gets a batch now that it asked for then, by `time.perf_counter`."""
        self._last = time.perf_counter()
        if not self._batches:
            self._first_batch = self._last - self._began
        else:
            self._waits.append(self._last - asked)
            self._waited += self._last - asked
        self._batches += 1

    def decoded(self, batch: DecodedBatch, ahead: int) -> None:
        """Note a batch, handed to the loop or dropped since nothing was left of it, and how many are begun."""
        self._frames += batch.frames
        self._ahead = ahead
        self._work += batch.work
        for source, reason, message in batch.skipped:
            self._skipped[source, reason] += 1
            self._messages.setdefault((source, reason), message)

    @property
    def samples_skipped(self) -> int:
        """How many samples were left out."""
        return sum(self._skipped.values())

    def statistics(self) -> LoaderStatistics:
        """Return what has been counted since `begin`."""
        seconds = self._last - self._began
        running = seconds - self._first_batch
        p50, p95 = np.percentile(self._waits, (50, 95)) if self._waits else (0.0, 0.0)
        return LoaderStatistics(
            epoch=self._epoch,
            batches=self._batches,
            frames=self._frames,
            seconds=seconds,
            frames_per_second=self._frames / seconds if seconds else 0.0,
            first_batch_seconds=self._first_batch,
            wait_seconds_p50=float(p50),
            wait_seconds_p95=float(p95),
            wait_share=self._waited / running if running > 0 else 0.0,
            batches_ahead=self._ahead,
            pictures_decoded=self._work.pictures,
            pictures_skipped=self._work.skipped,
            bytes_read=self._work.bytes_read,
            fallbacks=self._work.fallbacks,
            cache_hits=self._work.cache_hits,
            nvdec_utilization=nvdec_utilization(self._device),
            samples_skipped=self.samples_skipped,
            skipped=tuple(SkippedCount(*key, count, self._messages[key]) for key, count in self._skipped.most_common()),
        )


def nvdec_utilization(device: torch.device) -> int | None:
    """Return how busy a GPU's decoders are, in percent as NVML has it; None where that cannot be known."""
    if device.type != "cuda":
        return None
    try:
        import pynvml

        pynvml.nvmlInit()
        # By UUID: NVML does not know of CUDA_VISIBLE_DEVICES.
        uuid = f"GPU-{torch.cuda.get_device_properties(device).uuid}"
        return int(pynvml.nvmlDeviceGetDecoderUtilization(pynvml.nvmlDeviceGetHandleByUUID(uuid))[0])
    except Exception:  # missing, of another version, or not allowed here: a figure less, and no more than that
        return None
