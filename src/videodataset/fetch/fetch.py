"""Asked frames of any videos, in one go: one plan per video, all runs to the engine together."""

from __future__ import annotations

import os
from collections.abc import Sequence
from typing import Protocol

import numpy as np
import torch
from torch.utils.data import get_worker_info

from videodataset.fetch.ask import Ask, Output
from videodataset.fetch.cpu import CpuFetch, fetch_here
from videodataset.fetch.work import Work
from videodataset.videos import Video


class Fetch(Protocol):
    """Frames on their way; targets are the fetch's until `wait` or `errors` has returned."""

    @property
    def work(self) -> Work:
        """What it costs; complete when `wait` or `errors` has returned."""

    def wait(self) -> None:
        """Return when every target is filled.

        Raises:
            DamagedVideoError: a frame cannot be decoded without error; of several errors, that of the first ask.
            UnreadableVideoError: a source cannot be read any more.
            UnsupportedVideoError: a picture cannot be converted.
        """

    def errors(self) -> list[Exception | None]:
        """Wait, and return what went wrong with each ask, None where its target is filled."""

    def cancel(self) -> None:
        """Stop; targets may be written to until `errors` has returned."""


def fetch(asks: Sequence[Ask], device: torch.device, threads: int | None = None) -> Fetch:
    """Begin to fetch frames.

    Args:
        asks: displayed frames and their targets, in any order; a picture asked for often is decoded once.
        device: where the targets are.
        threads: runs decoded at a time on the CPU; 0 decodes in `Fetch.wait`; None takes `default_threads()`.

    Raises:
        NvdecUnavailableError: a CUDA device that is not there, or without a video library.
        ForkedCudaError: a CUDA device in a process forked from one that has used it.
    """
    threads = default_threads() if threads is None else threads
    if device.type == "cuda":
        from videodataset.fetch.cuda import CudaFetch

        return CudaFetch(asks, device, threads)
    return CpuFetch(asks, threads)


def fetch_frame(video: Video, frame: int, output: Output, device: torch.device, threads: int) -> torch.Tensor:
    """Fetch one frame into memory of its own; arguments and errors are those of `fetch`."""
    if device.type == "cpu" and not threads:
        return fetch_here(video, frame, output)
    ask = Ask(video, np.array([frame], np.int64), output, None)
    fetch([ask], device, threads).wait()
    assert ask.out is not None
    return ask.out[0]


def default_threads() -> int:
    """Return 0 in a loader's worker, which has the other workers beside it, else one per core of this process."""
    if get_worker_info() is not None:
        return 0
    try:
        cores = len(os.sched_getaffinity(0))
    except AttributeError:  # not on Linux
        cores = os.cpu_count() or 1
    return cores if cores > 1 else 0
