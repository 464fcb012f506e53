"""Decoded frames, kept at their final size.

    blocks of equal bytes ──▶ each belongs to one format of frames ──▶ slots, one for each frame

A frame that costs more pictures to decode takes the place of one that costs fewer. Nothing else is pushed out: training
uses all frames equally often, and a cache that always keeps the newest holds each just long enough to lose it. What an
epoch has not used counts half as much from then on, and so makes room for other data.
"""

from __future__ import annotations

import threading
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
import torch

from videodataset.byte_sizes import parse_bytes
from videodataset.fetch.ask import Ask

_BLOCKS = 16

Int64Array = npt.NDArray[np.int64]


class FrameCache:
    """Frames of any videos and formats, for `DataLoader(cache=...)`; several loaders may share one.

    Args:
        size: bytes, or "8GiB".
        device: where they are kept: a GPU, or "cpu", which is pinned memory where there is a GPU. Memory is taken as it
            is needed, a sixteenth at a time.
        behind: another cache, larger or slower, that gets what this one pushes out, and is asked for what this one does
            not hold.

    A frame is known by its file, the file's size, modification time and inode, its number, and everything that changes
    its pixels: so a changed file is never served stale. Sources without a lasting identity, such as bytes, are left
    out.

    Raises:
        ValueError: a size that is none.
    """

    def __init__(self, size: int | str, device: str | torch.device = "cpu", behind: FrameCache | None = None) -> None:
        self.size_bytes, self.device, self.behind = parse_bytes(size), torch.device(device), behind
        self._block_bytes = max(self.size_bytes // _BLOCKS, 1)
        self._formats: dict[Any, _Format] = {}
        self._lock = threading.RLock()
        self._epoch = 0
        self._event: tuple[torch.cuda.Event, torch.cuda.Stream] | None = None

    def begin_epoch(self) -> None:
        """Let what the epoch before has not used count for less."""
        with self._lock:
            self._epoch += 1
            unused = [key for key, form in self._formats.items() if form.last_used < self._epoch - 2]
            for key in unused:  # of another transform, say: its memory may be of use to those that are in use
                del self._formats[key]
        if self.behind is not None:
            self.behind.begin_epoch()

    @property
    def frames(self) -> int:
        """How many frames it holds, without those behind it."""
        with self._lock:
            return sum(len(each.place) - len(each.free) for each in self._formats.values())

    def take(self, wanted: Sequence[Wanted]) -> list[Int64Array]:
        """Copy what is held to where it is wanted, on the current stream; return for each which positions it filled."""
        with self._lock:
            self._order()
            filled = self._take(wanted)
            self._done()
        if self.behind is not None:
            rest = [each.without(done) for each, done in zip(wanted, filled, strict=True)]
            late = self.behind.take([each for each, _ in rest])
            filled = [np.concatenate((done, at[more])) for done, (_, at), more in zip(filled, rest, late, strict=True)]
        return filled

    def _take(self, wanted: Sequence[Wanted]) -> list[Int64Array]:
        filled: list[Int64Array] = []
        copies: dict[tuple[int, int], tuple[_Format, torch.Tensor, list[Int64Array], list[Int64Array]]] = {}
        for each in wanted:
            form = self._formats.get(each.format)
            slots_of = None if form is None else form.slots_of.get(each.video)
            if form is None or slots_of is None:
                filled.append(_NONE)
                continue
            slots = slots_of[each.frames]
            held = np.flatnonzero(slots >= 0)
            filled.append(held)
            if len(held):
                slots = slots[held]
                form.used[slots] = self._epoch
                key = (id(form), id(each.out))
                copy = copies.setdefault(key, (form, each.out, [], []))
                copy[2].append(slots)
                copy[3].append(each.rows[held])
        for form, out, slots_there, rows in copies.values():
            form.read(np.concatenate(slots_there), out, np.concatenate(rows))
        return filled

    def put(self, made: Sequence[Wanted]) -> None:
        """Keep frames that have been decoded, as far as they are worth it; copied on the current stream."""
        pushed_out: list[Wanted] = []
        with self._lock:
            self._order()
            for each in made:
                form = self._formats.get(each.format)
                if form is None:
                    form = self._formats[each.format] = _Format(each.format, each.out)
                self._put(form, each, pushed_out)
            self._done()
        if self.behind is not None and pushed_out:
            self.behind.put(pushed_out)

    def _put(self, form: _Format, made: Wanted, pushed_out: list[Wanted]) -> None:
        slots_of = form.slots_of.setdefault(made.video, np.full(made.video_frames, -1, np.int64))
        _, first = np.unique(made.frames, return_index=True)
        new = first[slots_of[made.frames[first]] < 0]
        if not len(new):
            return
        if len(form.free) < len(new):
            self._grow(form, len(new))
        new = new[np.argsort(-made.cost[new], kind="stable")]
        if len(form.free) < len(new):
            self._make_room(form, made.cost[new], pushed_out)
        new = new[: len(form.free)]
        slots = np.array([form.free.pop() for _ in new], np.int64)
        slots_of[made.frames[new]] = slots
        form.place[slots, 0], form.place[slots, 1] = form.number_of(made.video), made.frames[new]
        form.cost[slots], form.used[slots] = made.cost[new], self._epoch
        form.write(slots, made.out, made.rows[new])

    def _grow(self, form: _Format, count: int) -> None:
        """Take blocks of memory that are within the size, as many as are needed."""
        per_block = max(self._block_bytes // form.frame_bytes, 1)
        taken = sum(len(each.blocks) * each.block_bytes for each in self._formats.values())
        while len(form.free) < count and taken + per_block * form.frame_bytes <= self.size_bytes:
            form.add_block(per_block, self.device)
            taken += per_block * form.frame_bytes

    def _make_room(self, form: _Format, costs: npt.NDArray[np.float64], pushed_out: list[Wanted]) -> None:
        """Free slots of frames that are worth less than those that come, which are the dearest first."""
        worth = form.cost * 0.5 ** np.maximum(self._epoch - form.used - 1, 0)
        worth[form.free] = np.inf
        missing = min(len(costs) - len(form.free), len(worth) - len(form.free))
        if missing <= 0:
            return
        cheapest = np.argpartition(worth, missing - 1)[:missing]
        cheapest = cheapest[np.argsort(worth[cheapest], kind="stable")]
        # The dearest newcomers have the free slots; the next ones are held against the cheapest of those inside.
        others = costs[len(form.free) :][:missing]
        gone = cheapest[worth[cheapest] < others]
        if self.behind is not None and len(gone):
            pushed_out.extend(form.read_out(gone))
        for number, frame in form.place[gone].tolist():
            form.slots_of[form.videos[number]][frame] = -1
        form.free += gone.tolist()

    def _order(self) -> None:
        """Let the current stream come behind whatever another one has done here."""
        if self._event is not None:
            event, stream = self._event
            current = torch.cuda.current_stream(stream.device)
            if current != stream:
                current.wait_event(event)

    def _done(self) -> None:
        if torch.cuda.is_available() and torch.cuda.is_initialized():  # type: ignore[no-untyped-call]
            stream = torch.cuda.current_stream(self.device if self.device.type == "cuda" else None)
            self._event = stream.record_event(), stream


_NONE: Int64Array = np.empty(0, np.int64)


class Wanted(NamedTuple):
    """Frames of one video, and where they go, or are.

    Attributes:
        format: everything that changes pixels, and their shape.
        video: (name, number of the stream, identity) of the source.
        video_frames: how many the video has.
        frames: (n,), their numbers.
        out: (m, ...) memory of the frames.
        rows: (n,), which of `out`.
        cost: (n,), pictures that are decoded for each.
    """

    format: Any
    video: Any
    video_frames: int
    frames: Int64Array
    out: torch.Tensor
    rows: Int64Array
    cost: npt.NDArray[np.float64]

    def without(self, positions: Int64Array) -> tuple[Wanted, Int64Array]:
        """Return the others, and their positions."""
        left = np.setdiff1d(np.arange(len(self.frames)), positions)
        return self._replace(frames=self.frames[left], rows=self.rows[left], cost=self.cost[left]), left


def wanted_of(ask: Ask) -> Wanted | None:
    """Return an ask as the cache knows it; None where its source has no lasting identity."""
    storage, index = ask.video.storage, ask.video.index
    if storage.identity is None or ask.out is None:
        return None
    pictures = np.asarray(ask.pictures(), np.int64)
    cost = (pictures - index.start[pictures] + 1).astype(np.float64)
    shape = tuple(ask.out.shape[1:])
    video = (ask.video.name, index.info.stream_index, storage.identity)
    rows = np.arange(ask.first, ask.first + len(ask.frames))
    # Pixels made on a GPU and on the CPU are within bounds of one another, and not the same bits.
    form = (ask.output, shape, ask.out.dtype, ask.out.device.type)
    return Wanted(form, video, len(index), ask.frames, ask.out, rows, cost)


class _Format:
    """Frames of one shape that are made in one way."""

    def __init__(self, key: Any, like: torch.Tensor) -> None:
        self._key, self._shape, self._dtype = key, like.shape[1:], like.dtype
        self.frame_bytes = like[0].numel() * like.element_size()
        self.blocks: list[torch.Tensor] = []
        self.block_bytes = 0
        self._per_block = 1
        self.slots_of: dict[Any, Int64Array] = {}  # by video, per frame: its slot, or -1
        self.videos: list[Any] = []
        self._numbers: dict[Any, int] = {}
        self.free: list[int] = []
        self.place = np.empty((0, 2), np.int64)  # per slot: number of the video, frame
        self.cost = np.empty(0)
        self.used = np.empty(0, np.int64)  # per slot: the epoch that used it last

    def number_of(self, video: Any) -> int:
        number = self._numbers.get(video)
        if number is None:
            number = self._numbers[video] = len(self.videos)
            self.videos.append(video)
        return number

    def add_block(self, slots: int, device: torch.device) -> None:
        pinned = device.type == "cpu" and torch.cuda.is_available()
        self.blocks.append(torch.empty((slots, *self._shape), dtype=self._dtype, device=device, pin_memory=pinned))
        self._per_block, self.block_bytes = slots, slots * self.frame_bytes
        first = len(self.place)
        self.free += range(first + slots - 1, first - 1, -1)
        self.place = np.concatenate((self.place, np.zeros((slots, 2), np.int64)))
        self.cost = np.concatenate((self.cost, np.zeros(slots)))
        self.used = np.concatenate((self.used, np.zeros(slots, np.int64)))

    def read(self, slots: Int64Array, out: torch.Tensor, rows: Int64Array) -> None:
        """Copy slots to rows of a tensor, which may lie on another device."""
        for block, within, at in self._by_block(slots):
            target = torch.from_numpy(rows[at])
            source = block[torch.from_numpy(within).to(block.device)]
            out[target.to(out.device)] = source.to(out.device, non_blocking=True)

    def write(self, slots: Int64Array, out: torch.Tensor, rows: Int64Array) -> None:
        """Copy rows of a tensor to slots."""
        for block, within, at in self._by_block(slots):
            source = out[torch.from_numpy(rows[at]).to(out.device)]
            block[torch.from_numpy(within).to(block.device)] = source.to(block.device)

    def read_out(self, slots: Int64Array) -> list[Wanted]:
        """Return what slots hold, copied, for the cache behind."""
        out = torch.empty((len(slots), *self._shape), dtype=self._dtype, device=self.blocks[0].device)
        self.read(slots, out, np.arange(len(slots)))
        held = []
        for number in np.unique(self.place[slots, 0]).tolist():
            at = np.flatnonzero(self.place[slots, 0] == number)
            video = self.videos[number]
            frames, cost = self.place[slots[at], 1], self.cost[slots[at]]
            held.append(Wanted(self._key, video, len(self.slots_of[video]), frames, out, at, cost))
        return held

    @property
    def last_used(self) -> int:
        """The latest epoch that has used any of its frames; -1 where it holds none."""
        held = np.ones(len(self.place), bool)
        held[self.free] = False
        return int(self.used[held].max(initial=-1))

    def _by_block(self, slots: Int64Array) -> list[tuple[torch.Tensor, Int64Array, Int64Array]]:
        """(block, slots within it, positions in `slots`)."""
        blocks = slots // self._per_block
        return [
            (self.blocks[k], slots[at] - k * self._per_block, at)
            for k in np.unique(blocks).tolist()
            for at in [np.flatnonzero(blocks == k)]
        ]
