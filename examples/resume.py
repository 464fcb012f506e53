"""Training that stops and goes on: the checkpoint holds where the loader is, besides the model.

python examples/resume.py FOLDER --checkpoint run.pt --steps 30   # stop it whenever you like
python examples/resume.py FOLDER --checkpoint run.pt --steps 30   # goes on behind the last checkpoint
"""

from __future__ import annotations

import argparse
from pathlib import Path

import torch
from torch import nn
from vit import SmallViT, loader_of

EPOCH, EVERY = 12, 5  # steps of an epoch, and from checkpoint to checkpoint


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--checkpoint", type=Path, required=True)
    parser.add_argument("--steps", type=int, default=30)
    parser.add_argument("--stop-at", type=int, help="end here, as if the machine had been taken away")
    arguments = parser.parse_args()
    device = "cuda" if torch.cuda.is_available() else "cpu"
    torch.manual_seed(0)
    model = SmallViT().to(device)
    optimizer = torch.optim.AdamW(model.parameters(), lr=3e-4)
    loader = loader_of(arguments.folder, 8 * EPOCH, device)
    step = 0
    if arguments.checkpoint.exists():
        state = torch.load(arguments.checkpoint, weights_only=True)
        model.load_state_dict(state["model"])
        optimizer.load_state_dict(state["optimizer"])
        loader.load_state_dict(state["loader"])  # epoch, and how many of its batches the loop has had
        step = state["step"]
        print(f"going on behind step {step}")
    while step < arguments.steps:
        for batch in loader:
            loss = nn.functional.cross_entropy(model(batch["clip"]), batch["label"].to(device))
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            step += 1
            print(f"step {step}: {loss.item():.9f}", flush=True)
            if step % EVERY == 0:
                state = {"model": model.state_dict(), "optimizer": optimizer.state_dict(), "step": step}
                temporary = arguments.checkpoint.with_suffix(".part")
                torch.save(state | {"loader": loader.state_dict()}, temporary)
                temporary.replace(arguments.checkpoint)  # at once: a checkpoint half written is none
            if step in (arguments.steps, arguments.stop_at):
                return


if __name__ == "__main__":
    main()
