"""Compiling the kernel and launching it."""

from __future__ import annotations

import threading
import warnings
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import torch

_TILE_HEIGHT, _TILE_WIDTH = 8, 32  # of kernel.cu
_THREADS = _TILE_HEIGHT * _TILE_WIDTH
_MAX_PICTURES = 65535  # a grid has no more in its second dimension


class FusedUnavailableError(RuntimeError):
    """The kernel cannot be compiled or loaded here."""


class FusedConvert:
    """The kernel on one device.

    It is compiled by NVRTC, which needs no compiler on this machine, once: cuda-core keeps what came out in the user's
    cache folder ($XDG_CACHE_HOME/cuda-python/program-cache).

    Args:
        device: number of the CUDA device.

    Raises:
        FusedUnavailableError: cuda-core or NVRTC is missing, or the kernel does not compile.
    """

    def __init__(self, device: int) -> None:
        try:
            from cuda import core
            from cuda.core.utils import FileStreamProgramCache
        except ImportError as error:
            raise FusedUnavailableError(f"cuda-core cannot be imported ({error})") from error
        self._core, self._device = core, torch.device("cuda", device)
        source = (Path(__file__).parent / "kernel.cu").read_text()
        try:
            core.Device(device).set_current()
            major, minor = torch.cuda.get_device_capability(device)
            program = core.Program(source, "c++", core.ProgramOptions(std="c++17", arch=f"sm_{major}{minor}"))
            try:
                with FileStreamProgramCache() as cache:
                    binary = program.compile("cubin", cache=cache)
            except OSError:  # a folder that cannot be written to
                binary = program.compile("cubin")
            self._kernel = binary.get_kernel("convert")
        except Exception as error:  # of several kinds, all of cuda-core, NVRTC or the driver
            raise FusedUnavailableError(f"the kernel does not compile or load here: {error}") from error

    def convert(self, records: npt.NDArray[Any]) -> None:
        """Convert pictures, queued on the current stream.

        Args:
            records: PICTURE (n,). What their addresses point to must be free for the current stream.
        """
        stream = torch.cuda.current_stream(self._device)
        handle = self._core.Stream.from_handle(stream.cuda_stream)
        for start in range(0, len(records), _MAX_PICTURES):
            part = np.ascontiguousarray(records[start : start + _MAX_PICTURES])
            host = torch.from_numpy(part.view(np.uint8)).pin_memory()
            table = host.to(self._device, non_blocking=True)
            tiles = -(-part["out_height"] // _TILE_HEIGHT) * -(-part["out_width"] // _TILE_WIDTH)
            config = self._core.LaunchConfig(grid=(int(tiles.max()), len(part)), block=_THREADS)
            self._core.launch(handle, config, self._kernel, np.uint64(table.data_ptr()))


_made: dict[int, FusedConvert | None] = {}
_lock = threading.Lock()


def fused_convert(device: int) -> FusedConvert | None:
    """Return the kernel for a device, made on first use; None, with a warning the first time, where there is none."""
    with _lock:
        if device not in _made:
            try:
                _made[device] = FusedConvert(device)
            except FusedUnavailableError as error:
                warnings.warn(
                    f"frames are converted by PyTorch's operations, several times slower than by one kernel: {error}. "
                    f"pip install 'videodataset-nvdec[gpu]'",
                    RuntimeWarning,
                    stacklevel=2,
                )
                _made[device] = None
        return _made[device]
