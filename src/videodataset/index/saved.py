"""Saved indexes: one file per video, checked against the video's identity, made again when they do not fit."""

from __future__ import annotations

import hashlib
import json
import logging
import os
import tempfile
import zipfile
from dataclasses import asdict, fields
from fractions import Fraction
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np

from videodataset.index.build import build_index
from videodataset.index.model import Orientation, StreamInfo, VideoIndex
from videodataset.storage import Identity, Source, open_storage
from videodataset.storage.base import Storage

#: Raised with every change to what an index holds or how it is found; older files are rebuilt.
VERSION = 2

_log = logging.getLogger(__name__)
_ARRAYS = [f.name for f in fields(VideoIndex) if f.name not in ("info", "parameter_set_table")]
_FRACTIONS = ("time_base", "pixel_aspect_ratio")


def index_folder() -> Path:
    """Where indexes are saved: VIDEODATASET_INDEX_DIR, else `videodataset/index` in the user's cache folder."""
    folder = os.environ.get("VIDEODATASET_INDEX_DIR")
    if folder:
        return Path(folder)
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "videodataset" / "index"


def load_or_build(source: Source, *, stream_index: int | None = None, rebuild: bool = False) -> VideoIndex:
    """Return the index of a video: the saved one where it fits the file as it is now, else a new one, now saved.

    Only files by path have saved indexes. Raises what `build_index` raises.
    """
    storage = open_storage(source)
    path = _saved_path(storage, stream_index)
    if path is not None and not rebuild:
        index = _load(path, storage.identity)
        if index is not None:
            return index
    index = build_index(storage, stream_index=stream_index)
    if path is not None and storage.identity is not None:
        _save(index, path, storage.identity)
    return index


def saved_index_is_current(path: str | os.PathLike[str]) -> bool:
    """Whether a saved index of this file's best video stream exists and fits the file as it is now."""
    storage = open_storage(path)
    saved = _saved_path(storage, None)
    return saved is not None and _load(saved, storage.identity) is not None


def _saved_path(storage: Storage, stream_index: int | None) -> Path | None:
    if storage.identity is None:
        return None
    key = f"{os.path.abspath(storage.name)}\0{stream_index}".encode(errors="surrogateescape")
    return index_folder() / f"{hashlib.sha256(key).hexdigest()[:40]}.npz"


def _load(path: Path, identity: Identity | None) -> VideoIndex | None:
    """Read a saved index; None where it is missing, damaged, of another version or of another state of the file."""
    try:
        # A zip archive carries a CRC of every member, so damage is found on reading.
        with path.open("rb") as file, np.load(file, allow_pickle=False) as saved:
            header = json.loads(bytes(saved["header"]))
            if header["version"] != VERSION or identity is None or header["identity"] != asdict(identity):
                return None
            return _unpack(header, {name: saved[name] for name in _ARRAYS}, bytes(saved["blob"]))
    except FileNotFoundError:
        return None
    except (OSError, ValueError, KeyError, TypeError, EOFError, zipfile.BadZipFile) as error:
        _log.warning("saved index %s is damaged (%s) and will be made again", path, error)
        return None


def _save(index: VideoIndex, path: Path, identity: Identity) -> None:
    """Write beside the final place, then rename, so that a reader never sees half a file.

    A full or read-only disk is reported and costs only the time to build the index at the next opening.
    """
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        handle, temporary = tempfile.mkstemp(dir=path.parent, prefix=path.stem, suffix=".tmp")
        try:
            with os.fdopen(handle, "wb") as file:
                np.savez(file, **_pack(index, identity))
            os.replace(temporary, path)
        except BaseException:
            os.unlink(temporary)
            raise
    except OSError as error:
        _log.warning("the index cannot be saved in %s (%s); it will be built at every opening", path.parent, error)


def _pack(index: VideoIndex, identity: Identity) -> dict[str, Any]:
    info = asdict(index.info)
    blobs = [info.pop("extradata"), *(unit for entry in index.parameter_set_table for unit in entry)]
    for name in _FRACTIONS:
        info[name] = None if info[name] is None else [info[name].numerator, info[name].denominator]
    header = {
        "version": VERSION,
        "identity": asdict(identity),
        "info": info,
        "blob_sizes": [len(blob) for blob in blobs],
        "table": [len(entry) for entry in index.parameter_set_table],
    }
    arrays = {name: getattr(index, name) for name in _ARRAYS}
    return {"header": _bytes_array(json.dumps(header).encode()), "blob": _bytes_array(b"".join(blobs)), **arrays}


def _bytes_array(data: bytes) -> np.ndarray[Any, np.dtype[np.uint8]]:
    return np.frombuffer(data, np.uint8)


def _unpack(header: dict[str, Any], arrays: dict[str, Any], blob: bytes) -> VideoIndex:
    ends = np.cumsum([0, *header["blob_sizes"]]).tolist()
    blobs = [blob[a:b] for a, b in pairwise(ends)]
    info = header["info"]
    for name in _FRACTIONS:
        info[name] = None if info[name] is None else Fraction(*info[name])
    info["orientation"] = Orientation(**info["orientation"])
    table, at = [], 1
    for count in header["table"]:
        table.append(tuple(blobs[at : at + count]))
        at += count
    return VideoIndex(info=StreamInfo(**info, extradata=blobs[0]), parameter_set_table=tuple(table), **arrays)
