"""Bytes: (source, ranges) to bytes. Nothing else in the library opens a file."""

from videodataset.storage.base import Identity, Storage
from videodataset.storage.file_view import StorageFile
from videodataset.storage.open import Source, open_storage

__all__ = ["Identity", "Source", "Storage", "StorageFile", "open_storage"]
