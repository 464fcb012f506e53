"""Which device frames go to."""

from __future__ import annotations

import torch
from torch.utils.data import get_worker_info


def target_device(device: str | torch.device | None) -> torch.device:
    """Return the device that an argument means.

    Args:
        device: "cpu", "cuda", "cuda:1"; "auto" is the GPU where there is one, and the CPU in a loader's worker; None is
            `torch.get_default_device()`.

    Raises:
        ValueError: a device of another kind, to which nothing here decodes.
    """
    if device == "auto":
        return torch.device("cuda" if get_worker_info() is None and torch.cuda.is_available() else "cpu")
    try:
        chosen = torch.get_default_device() if device is None else torch.device(device)
    except RuntimeError as error:
        raise ValueError(f"device must be 'cpu', 'cuda', 'auto' or None, got {device!r}") from error
    if chosen.type not in ("cpu", "cuda"):
        raise ValueError(f"device must be 'cpu', 'cuda', 'auto' or None, got {device!r}")
    return chosen


def require_device(device: torch.device) -> None:
    """Refuse a GPU that cannot be used, before memory is taken there.

    Raises:
        NvdecUnavailableError: it is not there, or without a video library.
        ForkedCudaError: this process was forked from one that has used CUDA.
    """
    if device.type == "cuda":
        from videodataset.decode.nvdec import nvdec_engine

        nvdec_engine(device)
