"""Other libraries in benchmarks/nvdec.py: threads over files of their own, decoders kept open, RGB out."""

from __future__ import annotations

import random
import threading
import time
from collections.abc import Callable
from typing import Any

import torch

from benchmarks.nvdec_workloads import Files, cpu_seconds

_FILES_EACH = 1  # torchcodec is much slower with several GPU decoders open in a thread


def torchcodec(files: Files, threads: int, device: str, frames: int, seconds: float) -> dict[str, Any]:
    """torchcodec: one frame a call, or `frames` random ones of one file a call.

    With device "cuda" FFmpeg's parsing is in the thread and NVDEC decodes; with "cpu" frames stay in host memory.
    """
    from torchcodec.decoders import VideoDecoder

    def reader(number: int) -> Callable[[random.Random], int]:
        own = [files.paths[(number * _FILES_EACH + k) % len(files.paths)] for k in range(_FILES_EACH)]
        decoders = [VideoDecoder(path, device=device, seek_mode="exact", num_ffmpeg_threads=1) for path in own]

        def one(rng: random.Random) -> int:
            decoder = rng.choice(decoders)
            if frames == 1:
                decoder.get_frame_at(rng.randrange(files.frames))
            else:
                decoder.get_frames_at([rng.randrange(files.frames) for _ in range(frames)])
            return frames

        return one

    return _in_threads(reader, threads, seconds)


def _in_threads(
    reader: Callable[[int], Callable[[random.Random], int]], threads: int, seconds: float
) -> dict[str, Any]:
    """Run a reader in each of several threads for some seconds, after each has served a few frames."""
    served, errors = [0] * threads, []
    ready, go = threading.Barrier(threads + 1), threading.Event()
    stop = threading.Event()

    def work(number: int) -> None:
        try:
            rng = random.Random(number)
            one = reader(number)
            for _ in range(8):
                one(rng)
        except Exception as error:
            errors.append(f"{type(error).__name__}: {error}"[:300])
        ready.wait()
        go.wait()
        if errors:
            return
        while not stop.is_set():
            served[number] += one(rng)

    workers = [threading.Thread(target=work, args=(number,)) for number in range(threads)]
    for worker in workers:
        worker.start()
    ready.wait()
    if torch.cuda.is_available():
        torch.cuda.synchronize()
    started, cpu = time.perf_counter(), cpu_seconds()
    go.set()
    time.sleep(seconds if not errors else 0)
    stop.set()
    for worker in workers:
        worker.join()
    if errors:
        return {"threads": threads, "error": errors[0]}
    if torch.cuda.is_available():
        torch.cuda.synchronize()
    spent = time.perf_counter() - started
    used = cpu_seconds() - cpu
    return {"threads": threads, "frames_per_s": round(sum(served) / spent), "cores": round(used / spent, 2)}
