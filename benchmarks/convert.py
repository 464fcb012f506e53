"""The fused convert kernel against the bytes that it must move, at the bandwidth that copies reach on the same GPU.

A batch of pictures with random samples, more of them than the GPU's cache holds, is converted again and again; the
launches are queued behind a sleeping kernel, so that the host's work is not in the figure. The bound is the planes
read once and the result written once, at the bandwidth of a device-to-device copy of as many bytes, measured between.

    python -m benchmarks.convert [--json FILE]
"""

from __future__ import annotations

import argparse
import json
import statistics
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import torch
from rich.console import Console
from rich.table import Table

import videodataset as vd
from benchmarks.record import facts_of_the_run
from videodataset.convert.color import BT601_MATRIX, ColorDescription
from videodataset.convert.device import SampleLayout
from videodataset.convert.fused import FusedConvert, picture_template
from videodataset.index.model import Orientation

_ROUNDS, _LAUNCHES, _SLEEP_CYCLES = 7, 10, 20_000_000
_FLOAT = vd.Transform(size=(224, 224), dtype=torch.bfloat16, mean=(0.48, 0.46, 0.41), std=(0.27, 0.26, 0.28))
_CASES: list[tuple[int, int, int, str, vd.Transform, float | None]] = [
    # height, width, pictures, name, transform, of the bound that is asked
    (480, 640, 512, "224x224 bfloat16", _FLOAT, 0.7),
    (1080, 1920, 128, "224x224 bfloat16", _FLOAT, 0.7),
    (480, 640, 512, "full size uint8", vd.Transform(), None),
    (1080, 1920, 128, "full size uint8", vd.Transform(), None),
]


def _milliseconds(launch: Callable[[], object]) -> float:
    """Median time of one launch, of several queued behind one another."""
    times = []
    for _ in range(_ROUNDS):
        begin, end = torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)
        torch.cuda._sleep(_SLEEP_CYCLES)
        begin.record()
        for _ in range(_LAUNCHES):
            launch()
        end.record()
        end.synchronize()
        times.append(begin.elapsed_time(end) / _LAUNCHES)
    return statistics.median(times[1:])


def measure(height: int, width: int, pictures: int, transform: vd.Transform) -> dict[str, Any]:
    """Time of one launch and its bound, in ms."""
    device = torch.device("cuda", torch.cuda.current_device())
    surfaces = torch.randint(16, 236, (pictures, height * 3 // 2, width), dtype=torch.uint8, device=device)
    luma, chroma = surfaces[:, :height], surfaces[:, height:].unflatten(2, (width // 2, 2))
    placement = transform.placement(height, width)
    out = torch.empty((pictures, 3, *placement.output), dtype=transform.dtype, device=device)
    layout = SampleLayout(depth=8, in_high_bits=True)
    color = ColorDescription(BT601_MATRIX, full_range=False)
    template = picture_template((luma, chroma[..., 0], chroma[..., 1]), layout, color, Orientation(), transform)
    records = np.repeat(template[None], pictures)
    numbers = np.arange(pictures, dtype=np.uint64)
    records["plane"] += (numbers * np.uint64(surfaces.stride(0)))[:, None]
    records["out"] = out.data_ptr() + numbers * np.uint64(out.stride(0) * out.element_size())
    records["out_channel"], records["out_row"], records["out_column"] = out.stride()[1:]
    kernel = FusedConvert(device.index)
    moved = surfaces.numel() + out.numel() * out.element_size()
    half = torch.empty(moved // 2, dtype=torch.uint8, device=device)
    other = torch.empty_like(half)
    copy = _milliseconds(lambda: other.copy_(half))
    took = _milliseconds(lambda: kernel.convert(records))
    return {
        "pictures": pictures, "bytes": moved, "copy_ms": copy, "kernel_ms": took,
        "copy_bytes_per_s": moved / copy * 1e3, "of_bound": copy / took,
    }  # fmt: skip


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--json", type=Path, help="where the record goes")
    arguments = parser.parse_args()
    table = Table(title=torch.cuda.get_device_name())
    for column in ("pictures", "to", "kernel µs/picture", "bound µs/picture", "of the bound", "asked"):
        table.add_column(column)
    rows = []
    for height, width, pictures, name, transform, asked in _CASES:
        row = {"from": f"{width}x{height}", "to": name, "asked": asked, **measure(height, width, pictures, transform)}
        rows.append(row)
        per_picture = (f"{row[key] / pictures * 1e3:.3f}" for key in ("kernel_ms", "copy_ms"))
        table.add_row(f"{pictures} of {row['from']}", name, *per_picture, f"{row['of_bound']:.3f}", str(asked or ""))
    Console().print(table)
    if arguments.json:
        facts = facts_of_the_run("benchmarks.convert") | {"gpu": torch.cuda.get_device_name()}
        arguments.json.write_text(json.dumps(facts | {"rows": rows}, indent=1) + "\n")


if __name__ == "__main__":
    main()
