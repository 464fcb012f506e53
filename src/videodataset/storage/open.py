"""From what a user passes as `source` to a storage."""

from __future__ import annotations

import os
from typing import Any, TypeAlias, Union

import torch

from videodataset.errors import UnreadableVideoError
from videodataset.storage.base import Storage
from videodataset.storage.filelike import FileLike, SeekableReader
from videodataset.storage.local import LocalFile
from videodataset.storage.memory import MemoryBytes

Source: TypeAlias = Union[str, "os.PathLike[str]", bytes, bytearray, memoryview, torch.Tensor, SeekableReader, Storage]


def open_storage(source: Source) -> Storage:
    """Return the storage of a path, bytes, uint8 tensor or file-like object; a storage is returned as it is.

    Raises:
        UnreadableVideoError: the path is missing or a directory, or the object cannot seek.
        TypeError: no such kind of source.
    """
    value: Any = source
    if isinstance(value, (str, os.PathLike)):
        path = os.fspath(value)
        if "://" in path and not os.path.exists(path):
            raise UnreadableVideoError(
                f"{path}: only local files are read by address so far. Download it, or pass an open file-like object."
            )
        return LocalFile(path)
    if isinstance(value, (bytes, bytearray, memoryview)):
        return MemoryBytes(value)
    if isinstance(value, torch.Tensor):
        if value.dtype != torch.uint8 or value.ndim != 1:
            raise TypeError(f"a tensor source must be 1-D uint8, got {value.ndim}-D {value.dtype}")
        return MemoryBytes(value.cpu().contiguous().numpy().data)
    if hasattr(value, "identity") and hasattr(value, "size_bytes"):
        return value  # type: ignore[no-any-return]
    if hasattr(value, "read") and hasattr(value, "seek"):
        return FileLike(value)
    raise TypeError(f"cannot read a video from {type(value).__name__}: pass a path, bytes, a uint8 tensor or a file")
