"""FFmpeg's scaler, writing straight into the caller's memory.

PyAV's own `reformat` makes a new frame for every picture, which then has to be copied to its place in the batch
(measured: a tenth of the time of decoding in order), and takes interlaced pictures apart into fields. So the same
library, which PyAV has already loaded, is called by `sws_scale` and the functions around it, unchanged for many years.
"""

from __future__ import annotations

import ctypes
import threading
from collections import OrderedDict
from pathlib import Path
from typing import Any

import av.video.reformatter  # noqa: F401  (loads libswscale)
import numpy as np
import numpy.typing as npt

from videodataset.convert.color import ColorDescription

_BILINEAR = 2  # SWS_BILINEAR; without scaling any flag gives the same, but it chooses the fast path
_UNITY = 1 << 16  # contrast and saturation, 16.16 fixed point
_MAX_CONTEXTS = 8
#: Its vector code writes whole groups of pixels, and leaves out the last group of a row that has no room for it.
_GROUP_PIXELS = 32
_local = threading.local()


def _loaded_library(name: str) -> ctypes.CDLL:
    """Return a shared library that this process has loaded, by the beginning of its file name."""
    for line in Path("/proc/self/maps").read_text().splitlines():
        path = line.split(maxsplit=5)[-1]
        if path.startswith("/") and Path(path).name.startswith(name):
            return ctypes.CDLL(path)
    raise ImportError(f"PyAV is loaded, but {name} is not among this process's libraries")


class _Library:
    def __init__(self) -> None:
        scaler, util = _loaded_library("libswscale"), _loaded_library("libavutil")
        pointer, number = ctypes.c_void_p, ctypes.c_int
        self.pixel_format = _function(util.av_get_pix_fmt, number, [ctypes.c_char_p])
        self.get_context = _function(scaler.sws_getContext, pointer, [number] * 7 + [pointer] * 3)
        self.free_context = _function(scaler.sws_freeContext, None, [pointer])
        self.coefficients = _function(scaler.sws_getCoefficients, pointer, [number])
        details = [pointer, pointer, number, pointer, number, number, number, number]
        self.set_details = _function(scaler.sws_setColorspaceDetails, number, details)
        self.scale = _function(scaler.sws_scale, number, [pointer, pointer, pointer, number, number, pointer, pointer])


def _function(function: Any, result: Any, arguments: list[Any]) -> Any:
    function.restype, function.argtypes = result, arguments
    return function


_library = _Library()
_RGB24 = _library.pixel_format(b"rgb24")


class _Context:
    """A scaler for one size, format and colour description; used by one thread."""

    def __init__(self, width: int, height: int, pixel_format: str, color: ColorDescription) -> None:
        source = _library.pixel_format(pixel_format.encode())
        self._pointer = _library.get_context(width, height, source, width, height, _RGB24, _BILINEAR, None, None, None)
        if not self._pointer:
            raise MemoryError(f"swscale gives no context for {pixel_format} {width}x{height}")
        table = _library.coefficients(color.matrix)
        _library.set_details(self._pointer, table, color.full_range, table, 1, 0, _UNITY, _UNITY)
        self._planes, self._pitches = (ctypes.c_void_p * 4)(), (ctypes.c_int * 4)()
        self._out, self._out_pitch = (ctypes.c_void_p * 4)(), (ctypes.c_int * 4)()

    def __del__(self) -> None:
        if getattr(self, "_pointer", None):
            _library.free_context(self._pointer)

    def scale(self, frame: Any, out: npt.NDArray[np.uint8]) -> None:
        for number, plane in enumerate(frame.planes):
            self._planes[number], self._pitches[number] = plane.buffer_ptr, plane.line_size
        self._out[0], self._out_pitch[0] = out.ctypes.data, out.strides[0]
        _library.scale(self._pointer, self._planes, self._pitches, 0, frame.height, self._out, self._out_pitch)


def scale_to_rgb(frame: Any, color: ColorDescription, out: npt.NDArray[np.uint8]) -> None:
    """Write a planar 8-bit `av.VideoFrame` as RGB into `out`, uint8 (H, W, 3), rows of packed pixels."""
    known: OrderedDict[tuple[Any, ...], _Context] | None = getattr(_local, "contexts", None)
    if known is None:
        known = _local.contexts = OrderedDict()
    key = (frame.width, frame.height, frame.format.name, color)
    context = known.get(key)
    if context is None:
        context = known[key] = _Context(*key)
        if len(known) > _MAX_CONTEXTS:
            known.popitem(last=False)
    else:
        known.move_to_end(key)
    if frame.width % _GROUP_PIXELS == 0:
        context.scale(frame, out)
    else:
        roomy = np.empty((frame.height, -(-frame.width // _GROUP_PIXELS) * _GROUP_PIXELS, 3), np.uint8)
        context.scale(frame, roomy)
        out[:] = roomy[:, : frame.width]
