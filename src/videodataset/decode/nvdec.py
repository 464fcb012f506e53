"""The NVDEC engine: runs to the native core, one engine for each GPU and process."""

from __future__ import annotations

import atexit
import os
import threading
from collections import Counter, OrderedDict
from collections.abc import Sequence
from concurrent.futures import CancelledError
from functools import lru_cache
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import torch

from videodataset.decode.engine import DecodeRun, RunErrors
from videodataset.decode.packets import read_pictures
from videodataset.decode.surface import MONOCHROME, YUV420, YUV422, YUV444, SurfaceFormat, planes_of
from videodataset.errors import (
    DamagedVideoError,
    ForkedCudaError,
    NvdecUnavailableError,
    UnreadableVideoError,
    UnsupportedVideoError,
)
from videodataset.index.model import SYNC, StreamInfo, VideoIndex
from videodataset.plan import may_be_built_on
from videodataset.storage import Storage

if TYPE_CHECKING:
    from videodataset import _core

#: Enough that the hardware always has work queued: 14 sessions give 28,800 of its 30,500 pictures/s, 7 give 24,500
#: (HEVC 640x480, H200, seven NVDEC engines).
SESSIONS = 14
_CODECS = {"mpeg2video": 1, "mpeg4": 2, "h264": 4, "hevc": 8, "vp8": 9, "vp9": 10, "av1": 11}
_MAX_VIDEOS = 4096  # of which the core keeps the columns of the index


class NotDecodedHereError(UnsupportedVideoError):
    """The hardware does not decode this video; FFmpeg may."""


class DeviceSlot(NamedTuple):
    """Device memory for one picture.

    Attributes:
        memory: uint8 (n, surface.size_bytes) on the engine's GPU, contiguous: of several slots.
        row: which of them this is.
        surface: the format that the picture is expected to have.
        address: of the row's first byte, in device memory.
    """

    memory: torch.Tensor
    row: int
    surface: SurfaceFormat
    address: int

    def planes(self) -> list[torch.Tensor]:
        """Return Y, Cb, Cr, each (h, w); see `planes_of`."""
        return [plane[0] for plane in planes_of(self.memory[self.row : self.row + 1], self.surface)]


def device_slots(memory: torch.Tensor, surface: SurfaceFormat) -> list[DeviceSlot]:
    """Return the slots in memory of the shape (n, surface.size_bytes), uint8, contiguous."""
    start, size_bytes = memory.data_ptr(), surface.size_bytes
    return [DeviceSlot(memory, row, surface, start + row * size_bytes) for row in range(len(memory))]


@lru_cache(maxsize=4096)
def _surface_format(pixel_format: str, width: int, height: int) -> SurfaceFormat | None:
    name = pixel_format.removesuffix("le").replace("yuvj", "yuv")
    depth = next((bits for bits in (10, 12) if name.endswith(str(bits))), 8)
    family = name.removesuffix(str(depth)).removesuffix("p")
    chroma = {"yuv420": YUV420, "yuv422": YUV422, "yuv444": YUV444, "gray": MONOCHROME}.get(family)
    return None if chroma is None else SurfaceFormat(width, height, chroma, depth)


def surface_format(info: StreamInfo) -> SurfaceFormat | None:
    """Return how pictures of a stream lie in the hardware's memory, None where NVDEC has no format for them."""
    return _surface_format(info.pixel_format or "", info.width, info.height)


class NvdecEngine:
    """Decodes with one GPU's NVDEC; see `nvdec_engine`.

    Args:
        device: number of the CUDA device.
        sessions: how many runs are decoded at a time, each with a thread, a parser and a decoder.

    Raises:
        NvdecUnavailableError: no driver, no video library, no such device.
    """

    def __init__(self, device: int, sessions: int = SESSIONS) -> None:
        self._core = _load_core()
        problem = self._core.driver_info()["problem"]
        if problem:
            raise NvdecUnavailableError(f"device cuda:{device}: {problem}")
        self.device, self._pid = device, os.getpid()
        try:
            self._engine = self._core.Engine(device, sessions)
        except self._core.CoreError as error:
            raise NvdecUnavailableError(f"device cuda:{device}: {error.args[1]}") from None
        self._fallbacks: Counter[str] = Counter()
        self._reasons: dict[tuple[Any, ...], str | None] = {}
        self._in_flight: dict[int, tuple[_core.Ticket, list[torch.Tensor], int]] = {}
        self._videos: OrderedDict[int, _Known] = OrderedDict()  # by id of the index
        self._lock = threading.Lock()
        #: For slots to be allocated on. Nothing is ever queued on it but waits, so that the engine never waits for
        #: work of the caller's, such as the training step before.
        self.stream: torch.cuda.Stream = torch.cuda.Stream(device)  # type: ignore[no-untyped-call]

    def why_not(self, info: StreamInfo) -> str | None:
        """Return why this GPU does not decode a stream; None where it does."""
        key = (info.codec, info.pixel_format, info.width, info.height)
        if key not in self._reasons:
            self._reasons[key] = self._why_not(info)
        return self._reasons[key]

    def _why_not(self, info: StreamInfo) -> str | None:
        codec, surface = _CODECS.get(info.codec), surface_format(info)
        if codec is None or surface is None:
            return f"NVDEC decodes no {info.codec} with pixel format {info.pixel_format}"
        what = f"{info.codec} {info.pixel_format}"
        if surface.chroma == YUV422:
            return f"{what}: 4:2:2 is decoded by FFmpeg only"
        caps = self._engine.caps(codec, surface.chroma, surface.depth)
        if caps is None:
            return f"{what} is not decoded by this GPU"
        size = f"{what}, {info.width}x{info.height}"
        if info.width > caps["max_width"] or info.height > caps["max_height"]:
            return f"{size} is larger than this GPU takes, {caps['max_width']}x{caps['max_height']}"
        if info.width < caps["min_width"] or info.height < caps["min_height"]:
            return f"{size} is smaller than this GPU takes, {caps['min_width']}x{caps['min_height']}"
        return None

    def submit(self, runs: Sequence[DecodeRun[DeviceSlot]]) -> NvdecTicket:
        """See `Engine.submit`. Slots may have work queued on the current stream that still uses their memory."""
        if self._pid != os.getpid():
            raise forked_error()
        videos: list[_core.Video] = []
        pictures: list[int] = []
        slots: list[tuple[int, ...]] = []
        payloads: list[list[bytes] | None] = []
        first_picture, first_slot = [0], [0]
        memory: dict[int, torch.Tensor] = {}
        for run in runs:
            known = self._known(run.storage, run.index)
            videos.append(known.video)
            payloads.append(None if known.in_file else _payloads(run))
            pictures += run.run.pictures
            first_picture.append(len(pictures))
            for picture, slot in run.slots.items():
                slots.append((picture, slot.address, *slot.surface.fields))
                memory[id(slot.memory)] = slot.memory
            first_slot.append(len(slots))
        stream = torch.cuda.current_stream(self.device).cuda_stream
        columns = (
            np.array(pictures, np.int32),
            np.array(first_picture, np.int64),
            np.array(slots, np.int64).reshape(-1, 7),
            np.array(first_slot, np.int64),
        )
        try:
            ticket = self._engine.submit(videos, *columns, payloads, stream)
        except self._core.CoreError as error:
            kind, message = error.args
            raise _error(kind, message, f"device cuda:{self.device}") from None
        self._keep(ticket, list(memory.values()), stream)
        return NvdecTicket(ticket, runs, self)

    def _keep(self, ticket: _core.Ticket, memory: list[torch.Tensor], owner: int) -> None:
        """Hold slots until nothing is written to them, should the ticket's user let go of them before.

        Args:
            ticket: of the runs that fill them.
            memory: of the slots.
            owner: the stream on which the memory was allocated, and may be handed out again.
        """
        with self._lock:
            left_behind = [other for other, (native, _, _) in self._in_flight.items() if native.done]
            self._in_flight[id(ticket)] = (ticket, memory, owner)
        for other in left_behind:
            self.let_go(other)

    def let_go(self, ticket_id: int) -> None:
        """Let go of the slots of a ticket that has ended; their stream waits for the copies into them."""
        with self._lock:
            kept = self._in_flight.pop(ticket_id, None)
        if kept is not None:
            ticket, _, owner = kept
            ticket.order_before(owner)

    def statistics(self) -> dict[str, Any]:
        """Return counts since the engine was made, by name; pictures left to the CPU by the reason."""
        counts: dict[str, Any] = self._engine.statistics()
        with self._lock:
            return {**counts, "pictures_left_to_the_cpu": dict(self._fallbacks)}

    def note_fallback(self, reason: str, pictures: int) -> None:
        """Count pictures that the CPU decodes for this GPU."""
        with self._lock:
            self._fallbacks[reason] += pictures

    def close(self) -> None:
        """Cancel what is queued, end the threads, give back decoders."""
        if self._pid == os.getpid():
            self._engine.close()

    def _known(self, storage: Storage, index: VideoIndex) -> _Known:
        """Return what the core has of a video; it is told once."""
        with self._lock:
            known = self._videos.get(id(index))
            if known is not None:
                self._videos.move_to_end(id(index))
                return known
        local: tuple[str, int] | None = getattr(storage, "local_file", None) if index.info.direct else None
        path, offset = local if local is not None else (None, 0)
        identity = storage.identity
        info = index.info
        video: _core.Video = self._core.Video(
            storage.name,
            None if path is None else os.fsencode(path),
            (0, 0, 0) if identity is None else (identity.size_bytes, identity.mtime_ns, identity.inode),
            _CODECS[info.codec],
            info.nal_length_size,
            np.ascontiguousarray(index.packet_offset + offset, np.int64),
            np.ascontiguousarray(index.packet_size, np.int64),
            np.ascontiguousarray(index.first_packet, np.int64),
            np.ascontiguousarray((index.flags & SYNC) != 0, np.uint8),
            np.ascontiguousarray(index.parameter_sets, np.int32),
            [_parameter_sets(index, units) for units in index.parameter_set_table],
        )
        known = _Known(index, video, local is not None)
        with self._lock:
            self._videos[id(index)] = known
            while len(self._videos) > _MAX_VIDEOS:
                self._videos.popitem(last=False)
        return known


class _Known(NamedTuple):
    """A video that the core has been told of."""

    indexed: VideoIndex  # kept with it, so that its id stays its own
    video: _core.Video
    in_file: bool  # the core reads it by itself


def _payloads(run: DecodeRun[DeviceSlot]) -> list[bytes]:
    packets = read_pictures(run.storage, run.index, run.run.pictures)
    return [bytes(packet) for picture in packets for packet in picture]


class NvdecTicket:
    """Runs of one submission; see `Ticket`. What `wait` says is decoded may still be on its way to its slot."""

    def __init__(self, ticket: _core.Ticket, runs: Sequence[DecodeRun[DeviceSlot]], engine: NvdecEngine) -> None:
        self._ticket, self._runs, self._engine = ticket, list(runs), engine
        self._errors: list[RunErrors] | None = None

    @property
    def done(self) -> bool:
        """See `Ticket.done`."""
        return self._ticket.done

    def wait(self, timeout_s: float | None = None) -> list[RunErrors]:
        """See `Ticket.wait`. The current stream then waits for the copies into the slots."""
        if self._errors is None:
            outcomes = self._ticket.wait(timeout_s)
            if outcomes is None:
                raise TimeoutError(f"the runs have not ended after {timeout_s} s")
            self._errors = [
                {} if outcome is None else _errors(run, *outcome)
                for run, outcome in zip(self._runs, outcomes, strict=True)
            ]
            self._runs = []
            self._engine.let_go(id(self._ticket))
        self._ticket.order_before(torch.cuda.current_stream(self._engine.device).cuda_stream)
        return self._errors

    def cancel(self) -> None:
        """See `Ticket.cancel`."""
        self._ticket.cancel()

    def __del__(self) -> None:
        """Stop what nobody will ask for; the engine holds the slots until then."""
        if self._errors is None:
            self._ticket.cancel()


def _errors(
    run: DecodeRun[DeviceSlot], kind: str | None, message: str, missing: list[int], bad: list[int], _: Any
) -> RunErrors:
    asked, name = run.run.asked, run.storage.name
    if kind is not None:
        error = _error(kind, message, name)
        return dict.fromkeys(asked, error)
    errors: RunErrors = {}
    for picture in sorted(asked):
        cause = next((p for p in sorted(bad) if p == picture or may_be_built_on(run.index, picture, p)), None)
        if cause is not None:
            which = "it" if cause == picture else f"the picture {picture - cause} before it in decode order"
            errors[picture] = DamagedVideoError(
                f"{name}: picture {picture} (in decode order) cannot be decoded without error; NVDEC reports {which} "
                f"as damaged or incomplete. Ask for other frames, or fetch the file again."
            )
        elif picture in missing:
            errors[picture] = DamagedVideoError(
                f"{name}: picture {picture} (in decode order) did not come out of NVDEC. "
                f"Ask for other frames, or fetch the file again."
            )
    return errors


def _error(kind: str, message: str, name: str) -> Exception:
    if kind == "cancelled":
        return CancelledError()
    if kind == "unreadable":
        return UnreadableVideoError(message)
    if kind in ("unsupported", "format"):
        return NotDecodedHereError(message)
    if kind == "out_of_memory":
        return NvdecUnavailableError(
            f"{name}: the GPU's memory is exhausted ({message}). Free some, or ask for fewer frames at a time."
        )
    return NvdecUnavailableError(f"{name}: {message}. See `videodataset doctor`.")


def _parameter_sets(index: VideoIndex, units: tuple[bytes, ...]) -> bytes:
    if index.info.codec in ("h264", "hevc"):
        return b"".join(b"\0\0\0\1" + unit for unit in units)
    return b"".join(units)  # units of other codecs carry their own start codes or sizes


def _load_core() -> Any:
    try:
        from videodataset import _core
    except ImportError as error:
        raise NvdecUnavailableError(
            f"the native core of videodataset is not installed ({error}). Install from a wheel, or with a C++ "
            f"compiler: pip install ."
        ) from error
    return _core


def forked_error() -> ForkedCudaError:
    """Return the error for a forked child, with what to do."""
    return ForkedCudaError(
        "CUDA cannot be used in a process forked from one that has used it. In a data set return "
        "`videodataset.FrameRef` (or `self.frames(...)`) and let `videodataset.DataLoader` decode in the training "
        "process; or start workers with multiprocessing_context='spawn'; or decode in the worker with device='cpu'."
    )


_engines: dict[int, NvdecEngine] = {}
_engines_lock = threading.Lock()


def nvdec_engine(device: torch.device) -> NvdecEngine:
    """Return this process's engine for a GPU, made on first use and closed at exit.

    Raises:
        NvdecUnavailableError: no driver, no video library, no such device.
        ForkedCudaError: this process was forked from one that has used CUDA.
    """
    if _exiting.is_set():
        raise NvdecUnavailableError(f"device {device}: Python is exiting, and decodes nothing any more")
    if torch.cuda._is_in_bad_fork():
        raise forked_error()
    if not torch.cuda.is_available():
        problem = _load_core().driver_info()["problem"] or "torch finds no usable CUDA device"
        raise NvdecUnavailableError(f"device {device}: {problem}")
    number = torch.cuda.current_device() if device.index is None else device.index
    if number >= torch.cuda.device_count():
        raise NvdecUnavailableError(f"device cuda:{number}: there are {torch.cuda.device_count()} CUDA devices.")
    with _engines_lock:
        engine = _engines.get(number)
        if engine is not None and engine._pid != os.getpid():
            raise forked_error()
        if engine is None:
            torch.cuda.current_stream(number)  # torch makes the primary context first, with its own flags
            engine = _engines[number] = NvdecEngine(number)
        return engine


def close_engines() -> None:
    """Close the engines of this process; the next use makes new ones."""
    with _engines_lock:
        engines = list(_engines.values())
        _engines.clear()
    for engine in engines:
        engine.close()


def _close_for_good() -> None:
    _exiting.set()
    close_engines()


_exiting = threading.Event()  # threads that go on then must not make new ones, which nobody would close
atexit.register(_close_for_good)
