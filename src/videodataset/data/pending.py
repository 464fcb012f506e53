"""Collated references: one key of a batch, decoded when it is looked at, or ahead of that.

Neither a tensor, a tuple nor a mapping, so that every loader hands it on as it is: torch's calls `pin_memory()`,
accelerate `.to(device)`.
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import numpy as np
import torch

from videodataset.convert import Transform
from videodataset.data.columns import RefColumns
from videodataset.data.decode import Group, Resolution
from videodataset.data.frame_ref import FrameRef
from videodataset.fetch import target_device
from videodataset.frames import FrameBatch


class PendingFrames:
    """References of one batch, kept in columns so that they are cheap to send between processes.

    Args:
        refs: one for each sample.
        transform: what is made of the pictures; a reference's own `crop` and `size` win over it.

    `wait()` gives the tensor; so does whatever a tensor can do: `.to()`, arithmetic, indexing, `torch` functions,
    `.shape`, `np.asarray`.
    """

    __slots__ = ("_columns", "_resolution", "_value", "transform")

    def __init__(self, refs: Sequence[FrameRef], transform: Transform | None = None) -> None:
        self._columns = RefColumns(refs)
        self.transform = transform
        self._resolution: Resolution | None = None
        self._value: Any = None

    def refs(self) -> list[FrameRef]:
        """Return the references, one for each sample."""
        return self._columns.refs()

    def group(self, transform: Transform | None = None) -> Group:
        """Return the references for `Resolution`; the own transform wins over the one given."""
        return Group(self._columns, self.transform or transform)

    @property
    def begun(self) -> bool:
        """Whether decoding has begun, or ended."""
        return self._value is not None or self._resolution is not None

    def start(self, device: str | torch.device | None = None) -> PendingFrames:
        """Begin to decode to a device (see `videodataset.decode`), unless that has been done; returns itself."""
        if not self.begun:
            self._resolution = Resolution([self.group()], target_device(device)).start()
        return self

    def pin_memory(self, device: Any = None) -> PendingFrames:
        """Begin to decode to the GPU: what torch's loader calls ahead of the training loop. Returns itself."""
        return self.start("auto")

    def wait(self) -> Any:
        """Return (B, C, H, W) or (B, n, C, H, W); a list where shapes differ; a `FrameBatch` where times are asked for.

        Raises:
            VideoDatasetError: what `videodataset.decode` raises.
        """
        if self._value is None:
            resolution = self.start()._resolution
            assert resolution is not None
            self._value, self._resolution = resolution.wait()[0], None
        return self._value

    def to(self, *args: Any, **kwargs: Any) -> Any:
        """Return the decoded frames on a device, or of a dtype, as `torch.Tensor.to` takes them."""
        device = kwargs.get("device", args[0] if args else None)
        if isinstance(device, (str, torch.device, int)) and not isinstance(device, bool):
            self.start(torch.device("cuda", device) if isinstance(device, int) else device)
        return _each_tensor(self.wait(), lambda tensor: tensor.to(*args, **kwargs))

    def cuda(self, device: Any = None, **kwargs: Any) -> Any:
        """Return the decoded frames on the GPU."""
        return self.to("cuda" if device is None else device, **kwargs)

    def cpu(self) -> Any:
        """Return the decoded frames on the CPU."""
        return self.to("cpu")

    def __reduce__(self) -> tuple[Any, ...]:
        """Pickle as the columns: what has been decoded stays in this process."""
        return _unpickled, (self._columns, self.transform)

    def __len__(self) -> int:
        """Return the number of samples."""
        return len(self._columns)

    def __getitem__(self, key: Any) -> Any:
        return self.wait()[key]

    def __iter__(self) -> Iterator[Any]:
        return iter(self.wait())

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> np.ndarray[Any, Any]:
        return np.asarray(self.wait(), dtype=dtype)

    def __getattr__(self, name: str) -> Any:
        # Only what tensors and batches of frames have: a question for anything else must not start to decode.
        if name.startswith("_") or not (hasattr(torch.Tensor, name) or name in FrameBatch.__dataclass_fields__):
            raise AttributeError(f"{type(self).__name__!r} object has no attribute {name!r}")
        return getattr(self.wait(), name)

    def __repr__(self) -> str:
        state = "decoded" if self._value is not None else "decoding" if self._resolution is not None else "not begun"
        return f"PendingFrames({len(self)} references to {len(self._columns.sources)} videos, {state})"

    @classmethod
    def __torch_function__(
        cls, func: Callable[..., Any], types: Any, args: tuple[Any, ...] = (), kwargs: dict[str, Any] | None = None
    ) -> Any:
        return func(*_resolved(args), **_resolved(kwargs or {}))


def _unpickled(columns: RefColumns, transform: Transform | None) -> PendingFrames:
    pending = PendingFrames((), transform)
    pending._columns = columns
    return pending


def _resolved(value: Any) -> Any:
    if isinstance(value, PendingFrames):
        return value.wait()
    if isinstance(value, (list, tuple)):
        return type(value)(_resolved(each) for each in value)
    if isinstance(value, dict):
        return {name: _resolved(each) for name, each in value.items()}
    return value


def _each_tensor(value: Any, change: Callable[[torch.Tensor], torch.Tensor]) -> Any:
    if isinstance(value, torch.Tensor):
        return change(value)
    if isinstance(value, FrameBatch):  # times stay on the CPU
        return FrameBatch(change(value.data), value.pts_seconds, value.duration_seconds)
    return [_each_tensor(each, change) for each in value]


def _operator(name: str) -> Callable[..., Any]:
    def apply(self: PendingFrames, *others: Any) -> Any:
        return getattr(operator, name)(self.wait(), *_resolved(others))

    return apply


def _reflected(name: str) -> Callable[..., Any]:
    def apply(self: PendingFrames, other: Any) -> Any:
        return getattr(operator, name)(_resolved(other), self.wait())

    return apply


for _name in ("add", "sub", "mul", "truediv", "floordiv", "mod", "pow", "matmul", "and_", "or_", "xor"):
    _plain = _name.rstrip("_")
    setattr(PendingFrames, f"__{_plain}__", _operator(_name))
    setattr(PendingFrames, f"__r{_plain}__", _reflected(_name))
PendingFrames.__hash__ = object.__hash__  # type: ignore[method-assign]
for _name in ("eq", "ne", "lt", "le", "gt", "ge", "neg", "pos", "abs", "invert"):
    setattr(PendingFrames, f"__{_name}__", _operator(_name))
