"""One process per GPU, each decoding its own share of the samples on its own GPU.

torchrun --standalone --nproc-per-node 2 examples/ddp.py FOLDER [--steps 50]
"""

from __future__ import annotations

import argparse
import os
from pathlib import Path

import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel
from torch.utils.data import DistributedSampler
from vit import SIZE, Clips, SmallViT

import videodataset as vd


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--steps", type=int, default=50, help="of each process, in one epoch")
    arguments = parser.parse_args()
    on_gpu = torch.cuda.is_available()
    device = torch.device("cuda", int(os.environ["LOCAL_RANK"])) if on_gpu else torch.device("cpu")
    if on_gpu:
        torch.cuda.set_device(device)
    dist.init_process_group("nccl" if on_gpu else "gloo")
    rank, ranks = dist.get_rank(), dist.get_world_size()

    dataset = Clips(arguments.folder, 4 * ranks * arguments.steps)
    sampler = DistributedSampler(dataset, shuffle=True, drop_last=True)  # disjoint shares of equal size
    transform = vd.Transform(size=(SIZE, SIZE), dtype=torch.float32)
    # The same seed everywhere: a sample is the same clip on whichever process it falls.
    loader = vd.DataLoader(
        dataset, batch_size=4, sampler=sampler, num_workers=2, device=device, seed=0, transform=transform
    )
    torch.manual_seed(0)
    model = DistributedDataParallel(SmallViT().to(device), device_ids=[device] if on_gpu else None)
    optimizer = torch.optim.AdamW(model.parameters(), lr=3e-4)
    for epoch in range(2):
        loader.set_epoch(epoch)  # and with it the sampler's
        for batch in loader:
            loss = nn.functional.cross_entropy(model(batch["clip"]), batch["label"].to(device))
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
        print(f"rank {rank}, epoch {epoch}: loss {loss.item():.3f} on {device}; {loader.statistics()}", flush=True)
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
