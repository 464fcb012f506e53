"""From torchcodec in two steps: one line that changes, and then references instead of pixels.

python examples/from_torchcodec.py FOLDER {torchcodec,one-line,references}
"""

from __future__ import annotations

import argparse
import time
from pathlib import Path
from typing import Any

import torch
from torch.utils.data import Dataset

import videodataset as vd


class Frames(Dataset[Any]):
    """Frame 0, 5, 10, ... of every video, as one writes it with torchcodec."""

    def __init__(self, folder: Path, library: str) -> None:
        if library == "torchcodec":
            from torchcodec.decoders import VideoDecoder
        else:
            from videodataset import VideoDecoder  # step 1: this line, and no other
        self.decoder = VideoDecoder
        self.paths = [str(path) for path in sorted(folder.rglob("*.mp4"))]
        self.rows = [(path, k) for path in self.paths for k in range(0, len(VideoDecoder(path)), 5)]

    def __len__(self) -> int:
        return len(self.rows)

    def __getitem__(self, i: int) -> torch.Tensor:
        path, frame = self.rows[i]
        pixels: torch.Tensor = self.decoder(path)[frame]
        return pixels


class References(Frames, vd.BaseVideoDataset):
    """Step 2: say which frame, and the loader decodes a whole batch in one plan, on the GPU where there is one."""

    def __getitem__(self, i: int) -> Any:
        return self.frames(*self.rows[i])


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path)
    parser.add_argument("form", choices=["torchcodec", "one-line", "references"])
    arguments = parser.parse_args()
    began, total, frames = time.perf_counter(), 0, 0
    if arguments.form == "references":
        loader: Any = vd.DataLoader(
            References(arguments.folder, "videodataset"), batch_size=16, num_workers=2, device="auto"
        )
    else:
        loader = torch.utils.data.DataLoader(Frames(arguments.folder, arguments.form), batch_size=16, num_workers=2)
    for batch in loader:  # uint8 (B, 3, H, W)
        total += int(batch.sum(dtype=torch.int64))
        frames += len(batch)
    rate = frames / (time.perf_counter() - began)
    print(f"{frames} frames, mean level {total / max(frames, 1) / batch[0].numel():.2f}, {rate:.0f} frames/s")


if __name__ == "__main__":
    main()
