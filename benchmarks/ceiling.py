"""The ceiling program (nvdec_ceiling.cpp): building it, making its streams from MP4 files, running it."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path
from typing import Any

import numpy as np

from videodataset.index import load_or_build
from videodataset.index.model import DISPOSABLE, SYNC
from videodataset.storage import open_storage

_ROOT = Path(__file__).parent.parent
_START_CODE = b"\0\0\0\1"


def build(folder: Path) -> Path:
    """Build the program with g++; return its path."""
    program = folder / "nvdec_ceiling"
    sources = [str(_ROOT / "benchmarks/nvdec_ceiling.cpp"), str(_ROOT / "csrc/core/driver/driver.cpp")]
    command = ["g++", "-O2", "-std=c++17", f"-I{_ROOT / 'csrc'}", *sources, "-o", str(program), "-ldl", "-lpthread"]
    subprocess.run(command, check=True)
    return program


def write_stream(clip: Path, folder: Path) -> tuple[Path, Path, str]:
    """Write an H.264 or HEVC file as an Annex B stream, parameter sets before each sync picture, and its index.

    Returns the paths of stream and index, and the codec.
    """
    storage = open_storage(clip)
    index = load_or_build(storage)
    if index.info.codec not in ("h264", "hevc") or not index.info.nal_length_size:
        raise ValueError(f"{clip}: only H.264 and HEVC in MP4 have such a stream")
    if not np.array_equal(index.first_packet, np.arange(len(index.flags) + 1)):
        raise ValueError(f"{clip}: a picture of several packets")
    stream, lines, length = bytearray(), [], index.info.nal_length_size
    for picture, flags in enumerate(index.flags.tolist()):
        begin = len(stream)
        if flags & SYNC:
            for unit in index.parameter_set_table[index.parameter_sets[picture]]:
                stream += _START_CODE + unit
        packet = storage.read(int(index.packet_offset[picture]), int(index.packet_size[picture]))
        at = 0
        while at < len(packet):
            size = int.from_bytes(packet[at : at + length], "big")
            stream += _START_CODE + packet[at + length : at + length + size]
            at += length + size
        lines.append(f"{begin} {len(stream) - begin} {index.start[picture]} {int(bool(flags & DISPOSABLE))}\n")
    paths = folder / f"{clip.stem}.{index.info.codec}", folder / f"{clip.stem}.idx"
    paths[0].write_bytes(stream)
    paths[1].write_text("".join(lines))
    return *paths, index.info.codec


class Ceiling:
    """What the hardware gives for one clip."""

    def __init__(self, program: Path, clip: Path, folder: Path) -> None:
        self._program = program
        self._stream, self._index, self._codec = write_stream(clip, folder)

    def run(self, mode: str, sessions: int, seconds: float) -> dict[str, Any]:
        """Run one mode; return what the program prints.

        Raises:
            RuntimeError: a served frame was not the asked one.
        """
        command = [str(self._program), str(self._stream), str(self._index), self._codec, mode, str(sessions)]
        result: dict[str, Any] = json.loads(subprocess.check_output([*command, str(seconds)], text=True))
        if result["hits"] < 0.999:
            raise RuntimeError(f"{' '.join(command)}: only {result['hits']} of the frames were those asked for")
        return result
