"""Asked frames of any videos, in one go: one plan per video, all runs to the engine together."""

from __future__ import annotations

import os
from collections.abc import Sequence

import numpy as np
import torch
from torch.utils.data import get_worker_info

from videodataset.fetch.ask import Ask, Output
from videodataset.fetch.base import Fetch
from videodataset.fetch.cpu import CpuFetch, fetch_here
from videodataset.videos import Video


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
