"""A small vision transformer learns from clips which way time runs: one half of them is played backwards.

python examples/vit.py FOLDER [--steps 200]
"""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import Any

import torch
from torch import nn
from torch.utils.data import Dataset

import videodataset as vd

FRAMES, SIZE, PATCH, WIDTH = 8, 64, 16, 128


class Clips(Dataset[Any], vd.BaseVideoDataset):
    """Clips from random places of the videos in a folder; which place depends on seed, epoch and sample alone."""

    def __init__(self, folder: Path, samples: int) -> None:
        self.paths = [str(path) for path in sorted(folder.rglob("*.mp4"))]
        self.counts = [len(vd.VideoDecoder(path)) for path in self.paths]
        self.samples = samples

    def __len__(self) -> int:
        return self.samples

    def __getitem__(self, i: int) -> Any:
        rng = self.rng(i)
        video = int(rng.integers(len(self.paths)))
        first = int(rng.integers(self.counts[video] - FRAMES + 1))
        numbers = list(range(first, first + FRAMES))
        backwards = i % 2
        # A reference: nothing is opened or decoded here. Frames come in the order in which they are asked for.
        return {"clip": self.frames(self.paths[video], numbers[::-1] if backwards else numbers), "label": backwards}


class SmallViT(nn.Module):
    """Patches of all frames as tokens, attended to together."""

    def __init__(self) -> None:
        super().__init__()
        tokens = FRAMES * (SIZE // PATCH) ** 2
        self.patches = nn.Conv3d(3, WIDTH, (1, PATCH, PATCH), (1, PATCH, PATCH))
        self.places = nn.Parameter(torch.randn(tokens, WIDTH) * 0.02)
        layer = nn.TransformerEncoderLayer(WIDTH, 4, 2 * WIDTH, dropout=0.0, batch_first=True, norm_first=True)
        self.layers = nn.TransformerEncoder(layer, 2, enable_nested_tensor=False)
        self.head = nn.Linear(WIDTH, 2)

    def forward(self, clips: torch.Tensor) -> torch.Tensor:
        """(B, FRAMES, 3, SIZE, SIZE) to (B, 2)."""
        tokens = self.patches(clips.transpose(1, 2)).flatten(2).transpose(1, 2) + self.places
        out: torch.Tensor = self.head(self.layers(tokens).mean(1))
        return out


def loader_of(folder: Path, samples: int, device: str) -> vd.DataLoader:
    """The loader: frames arrive at the network's size and scale, on its device."""
    transform = vd.Transform(
        size=(SIZE, SIZE), dtype=torch.float32, mean=(0.485, 0.456, 0.406), std=(0.229, 0.224, 0.225)
    )
    return vd.DataLoader(
        Clips(folder, samples), batch_size=8, shuffle=True, num_workers=2, device=device, seed=0, transform=transform
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--steps", type=int, default=200)
    arguments = parser.parse_args()
    device = "cuda" if torch.cuda.is_available() else "cpu"
    torch.manual_seed(0)
    model = SmallViT().to(device)
    optimizer = torch.optim.AdamW(model.parameters(), lr=3e-4)
    loader = loader_of(arguments.folder, 8 * arguments.steps, device)
    for step, batch in enumerate(loader, 1):
        loss = nn.functional.cross_entropy(model(batch["clip"]), batch["label"].to(device))
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        if step % 20 == 0 or step == arguments.steps:
            print(f"step {step}: loss {loss.item():.3f}; {loader.statistics()}", flush=True)


if __name__ == "__main__":
    main()
