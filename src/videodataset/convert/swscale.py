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
from videodataset.convert.crop import Crop
from videodataset.convert.layout import planar_layout

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
        layout = planar_layout(pixel_format)
        assert layout is not None
        self._shift_x, self._shift_y = layout.chroma_shift_x, layout.chroma_shift_y
        self._planes, self._pitches = (ctypes.c_void_p * 4)(), (ctypes.c_int * 4)()
        self._out, self._out_pitch = (ctypes.c_void_p * 4)(), (ctypes.c_int * 4)()

    def __del__(self) -> None:
        if getattr(self, "_pointer", None):
            _library.free_context(self._pointer)

    def scale(self, frame: Any, out: npt.NDArray[np.uint8], top: int, left: int, rows: int) -> None:
        """Convert `rows` rows from (top, left), which lie on whole chroma samples, at the width of this context."""
        shift_x = shift_y = 0  # of the first plane
        for number, plane in enumerate(frame.planes):
            pitch = self._pitches[number] = plane.line_size
            self._planes[number] = plane.buffer_ptr + (top >> shift_y) * pitch + (left >> shift_x)
            shift_x, shift_y = self._shift_x, self._shift_y
        self._out[0], self._out_pitch[0] = out.__array_interface__["data"][0], out.strides[0]
        # To swscale these are the first rows of a picture: a slice may begin at the top only.
        _library.scale(self._pointer, self._planes, self._pitches, 0, rows, self._out, self._out_pitch)


def scale_to_rgb(frame: Any, color: ColorDescription, out: npt.NDArray[np.uint8], crop: Crop | None = None) -> None:
    """Write a planar 8-bit `av.VideoFrame` of even height, or a part of it, as RGB.

    A part is widened to whole pairs of rows and to the groups of pixels that the vector code would also form in the
    whole picture, so that every pixel gets the same value either way. Measured on one core: the middle 960x540 of
    1920x1080 takes 0.3 to 0.8 ms, all of it and a slice 1.1 to 1.6 ms; 224x224 takes 0.07 ms.

    Args:
        frame: the picture.
        color: what its samples mean.
        out: uint8 (H, W, 3), rows of packed pixels, of the size of the crop.
        crop: (top, left, height, width) in coded coordinates, inside the picture; None is all of it.
    """
    top, left, height, width = crop or (0, 0, frame.height, frame.width)
    first_row, first_column = top - top % 2, left - left % _GROUP_PIXELS
    rows = top + height + (top + height) % 2 - first_row
    room = -(-(left + width) // _GROUP_PIXELS) * _GROUP_PIXELS - first_column
    columns = min(room, frame.width - first_column)
    known: OrderedDict[tuple[Any, ...], _Context] | None = getattr(_local, "contexts", None)
    if known is None:
        known = _local.contexts = OrderedDict()
    key = (columns, frame.height, frame.format.name, color)
    context = known.get(key)
    if context is None:
        context = known[key] = _Context(*key)
        if len(known) > _MAX_CONTEXTS:
            known.popitem(last=False)
    else:
        known.move_to_end(key)
    if (rows, room) == (height, width):
        context.scale(frame, out, first_row, first_column, rows)
    else:
        roomy = np.empty((rows, room, 3), np.uint8)
        context.scale(frame, roomy, first_row, first_column, rows)
        row, column = top - first_row, left - first_column
        out[:] = roomy[row : row + height, column : column + width]
