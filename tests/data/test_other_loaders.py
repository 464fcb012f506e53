"""A few steps of training under Lightning, Hugging Face's Trainer and torchdata's loader, with the frames asked for."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch
from torch import nn

import torchvision_functional
import videodataset as vd
from clips import ClipStore
from reference import Reference, assert_picture
from samples import EveryFrame

pytestmark = [
    pytest.mark.timeout(240),
    pytest.mark.filterwarnings("ignore::DeprecationWarning", "ignore::FutureWarning", "ignore::UserWarning"),
    pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning", "ignore::ResourceWarning"),
]
SMALL = vd.Transform(size=(8, 8), dtype=torch.float32)


@pytest.fixture(autouse=True)
def torchvision() -> None:
    """Both libraries import it where it is installed."""
    torchvision_functional.load()


class Model(nn.Module):
    """Notes what it sees."""

    def __init__(self, path: str) -> None:
        super().__init__()
        self.layer = nn.Linear(3 * 8 * 8, 1)
        self.path, self.seen = path, list[int]()

    def forward(self, image: Any, number: torch.Tensor) -> dict[str, torch.Tensor]:
        pixels = image * 1  # a tensor, or pending frames that become one here
        want = vd.decode([vd.FrameRef(self.path, n) for n in number.tolist()], transform=SMALL, device="cpu")
        assert torch.equal(pixels.cpu(), want)
        self.seen += number.tolist()
        return {"loss": self.layer(pixels.flatten(1)).square().mean()}


def loader_of(path: str, ours: bool, workers: int) -> Any:
    if ours:
        return vd.DataLoader(EveryFrame(path), batch_size=4, num_workers=workers, transform=SMALL, device="cpu", seed=1)
    collate = _with_transform
    return torch.utils.data.DataLoader(EveryFrame(path), batch_size=4, num_workers=workers, collate_fn=collate)


def _with_transform(samples: Any) -> Any:
    return vd.collate(samples, transform=SMALL)


@pytest.mark.parametrize(("ours", "workers"), [(True, 0), (True, 2), (False, 0), (False, 2)])
def test_lightning(clip: ClipStore, tmp_path: Path, ours: bool, workers: int) -> None:
    lightning = pytest.importorskip("lightning")

    class Module(lightning.LightningModule):  # type: ignore[name-defined, misc]
        def __init__(self, path: str) -> None:
            super().__init__()
            self.model = Model(path)

        def training_step(self, batch: Any, batch_idx: int) -> Any:
            return self.model(**batch)["loss"]

        def configure_optimizers(self) -> Any:
            return torch.optim.SGD(self.parameters(), 0.01)

    path = str(clip("h264_15b"))
    module = Module(path)
    trainer = lightning.Trainer(
        max_epochs=2, accelerator="cpu", devices=1, logger=False, enable_checkpointing=False, enable_progress_bar=False,
        enable_model_summary=False, default_root_dir=tmp_path,
    )  # fmt: skip
    before = module.model.layer.weight.detach().clone()
    trainer.fit(module, loader_of(path, ours, workers))
    assert sorted(module.model.seen) == sorted([*range(24), *range(24)])
    assert not torch.equal(before, module.model.layer.weight)


@pytest.mark.parametrize("workers", [0, 2])
def test_hugging_face_trainer(clip: ClipStore, tmp_path: Path, workers: int) -> None:
    transformers = pytest.importorskip("transformers")
    path = str(clip("h264_15b"))
    model = Model(path)
    arguments = transformers.TrainingArguments(
        output_dir=str(tmp_path), num_train_epochs=2, per_device_train_batch_size=4, dataloader_num_workers=workers,
        remove_unused_columns=False, use_cpu=True, report_to=[], save_strategy="no", disable_tqdm=True,
        label_names=["number"],
    )  # fmt: skip
    trainer = transformers.Trainer(
        model=model, args=arguments, train_dataset=EveryFrame(path), data_collator=_with_transform
    )
    trainer.train()
    assert sorted(model.seen) == sorted([*range(24), *range(24)])


@pytest.mark.parametrize("workers", [0, 2])
def test_torchdata_resumes(clip: ClipStore, reference: Reference, workers: int) -> None:
    module = pytest.importorskip("torchdata.stateful_dataloader")
    path = str(clip("h264_15b"))

    def loader() -> Any:
        return module.StatefulDataLoader(
            EveryFrame(path), batch_size=4, shuffle=True, num_workers=workers, collate_fn=vd.collate,
            generator=torch.Generator().manual_seed(5),
        )  # fmt: skip

    want = [batch["number"].tolist() for batch in loader()]
    first = loader()
    iterator = iter(first)
    for _ in range(2):
        next(iterator)
    state = first.state_dict()
    second = loader()
    second.load_state_dict(state)
    got = []
    for batch in second:
        got.append(batch["number"].tolist())
        for pixels, number in zip(batch["image"], got[-1], strict=True):
            assert_picture(pixels, reference("h264_15b")[number])
    assert got == want[2:]
