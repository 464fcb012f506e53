"""Under Hugging Face's accelerate, which rebuilds a loader as one of torch's own."""

from __future__ import annotations

import subprocess
import sys
import textwrap
from pathlib import Path

import pytest

from clips import ClipStore

pytest.importorskip("accelerate")

SCRIPT = """
    import os, sys, torch, videodataset as vd
    from accelerate import Accelerator

    class Clips(torch.utils.data.Dataset, vd.BaseVideoDataset):
        def __len__(self):
            return 24

        def __getitem__(self, i):
            return {"image": self.frames(sys.argv[1], i), "number": i}

    def main():
        accelerator = Accelerator(cpu=True)
        model = torch.nn.Sequential(torch.nn.Flatten(), torch.nn.Linear(3 * 8 * 8, 1))
        optimizer = torch.optim.SGD(model.parameters(), 0.1)
        transform = vd.Transform(size=(8, 8), dtype=torch.float32)
        if sys.argv[3] == "ours":
            options = {"num_workers": int(sys.argv[2]), "transform": transform}
            loader = vd.DataLoader(Clips(), batch_size=4, shuffle=True, seed=3, **options)
        else:
            from functools import partial
            collate = partial(vd.collate, transform=transform)
            options = {"num_workers": int(sys.argv[2]), "collate_fn": collate}
            loader = torch.utils.data.DataLoader(Clips(), batch_size=4, **options)
        model, optimizer, loader = accelerator.prepare(model, optimizer, loader)
        seen = []
        for epoch in range(2):
            for batch in loader:
                numbers = batch["number"].tolist()
                want = vd.decode([vd.FrameRef(sys.argv[1], n) for n in numbers], transform=transform)
                assert torch.equal(batch["image"] * 1, want), numbers
                loss = model(batch["image"]).square().mean()
                accelerator.backward(loss)
                optimizer.step()
                optimizer.zero_grad()
                seen += numbers
        assert len(seen) == 48 // accelerator.num_processes
        everyones = accelerator.gather(torch.tensor(seen[: len(seen) // 2]))
        assert sorted(everyones.tolist()) == list(range(24))
        accelerator.print("trained", flush=True)
        accelerator.end_training()
        # torch 2.13 aborts now and then when a process with a gloo group ends ("terminate called without an active
        # exception"; seen with tensors as data, too): what is tested has passed here.
        sys.stdout.flush()
        os._exit(0)

    if __name__ == "__main__":
        main()
"""


@pytest.mark.parametrize(
    ("ranks", "workers", "loader"), [(1, 0, "ours"), (1, 2, "torch's"), (2, 2, "ours"), (2, 0, "torch's")]
)
def test_prepared_and_trained(clip: ClipStore, tmp_path: Path, ranks: int, workers: int, loader: str) -> None:
    script = tmp_path / "train.py"
    script.write_text(textwrap.dedent(SCRIPT))
    launcher = [sys.executable] if ranks == 1 else [
        sys.executable, "-m", "torch.distributed.run", "--standalone", f"--nproc_per_node={ranks}",
    ]  # fmt: skip
    done = subprocess.run(
        [*launcher, str(script), str(clip("h264")), str(workers), loader],
        check=False,
        capture_output=True,
        text=True,
        timeout=200,
    )
    assert done.returncode == 0, done.stderr[-3000:]
    assert "trained" in done.stdout
