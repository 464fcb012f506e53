"""torchvision's own resize, the reference; None where torchvision, or what it needs, is not installed.

Of torchvision only Python code over torch's operators is used. A torchvision built for another variant of the same
torch (CUDA beside CPU) loads without its compiled operators, but declares fakes for two of them and fails there, so
these are declared first.
"""

from __future__ import annotations

import contextlib
import importlib.util
import warnings
from typing import Any

import torch

_DETECTION = ("nms", "qnms")
_declared: list[torch.library.Library] = []  # a library object's declarations end with it


def load() -> Any | None:
    """`torchvision.transforms.v2.functional`, or None."""
    if importlib.util.find_spec("torchvision") is None:
        return None
    with warnings.catch_warnings(), contextlib.suppress(ModuleNotFoundError):
        warnings.simplefilter("ignore")  # of compiled parts that cannot be loaded
        try:
            from torchvision.transforms.v2 import functional
        except RuntimeError as error:
            if "torchvision::nms does not exist" not in str(error):
                raise
            library = torch.library.Library("torchvision", "DEF")
            for name in _DETECTION:
                library.define(f"{name}(Tensor dets, Tensor scores, float iou_threshold) -> Tensor")
            _declared.append(library)
            from torchvision.transforms.v2 import functional
        return functional
    return None
