"""The CPU engine: runs to FFmpeg frames, each recognised by its packet's number, never by its place in the output."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import av

from videodataset.decode.contexts import contexts
from videodataset.decode.packets import check_whole, framed_parameter_sets, read_pictures
from videodataset.errors import DamagedVideoError
from videodataset.index.model import DAMAGED, DISPOSABLE, HIDDEN, LEADING, SYNC, VideoIndex
from videodataset.plan import Run
from videodataset.storage import Storage

#: Called with a picture number and its `av.VideoFrame`, once per asked picture, in any order, possibly from several
#: threads.
Deliver = Callable[[int, Any], None]


def decode_runs(storage: Storage, index: VideoIndex, runs: Sequence[Run], deliver: Deliver, threads: int = 1) -> None:
    """Decode runs and hand over every asked picture.

    Args:
        storage: the video's bytes.
        index: the video's index.
        runs: from `plan_runs`.
        deliver: takes each asked picture.
        threads: decode this many runs at a time, each on one thread; 0 = as many as there are cores.

    Raises:
        DamagedVideoError: an asked picture cannot be decoded without error.
        UnreadableVideoError: the source cannot be read any more.
    """
    threads = min(threads or os.cpu_count() or 1, len(runs))
    if threads <= 1:
        for run in runs:
            _Decoding(storage, index, run, deliver).execute()
        return
    with ThreadPoolExecutor(threads, thread_name_prefix="videodataset-decode") as pool:
        # list() raises the first error; leaving the block waits for the others.
        list(pool.map(lambda run: _Decoding(storage, index, run, deliver).execute(), runs))


class _Decoding:
    """One run on one context.

    A picture is refused if anything it may be built from, from its start picture on, is short, raised an error, came
    out marked corrupt, or did not come out at all. So a picture is held until all of these have come out, which
    reordering delays by a few.
    """

    def __init__(self, storage: Storage, index: VideoIndex, run: Run, deliver: Deliver) -> None:
        self._storage, self._index, self._run, self._deliver = storage, index, run, deliver
        self._bad: dict[int, str] = {}  # picture to what is wrong with it
        self._came: set[int] = set()
        self._held: dict[int, Any] = {}  # asked pictures, until what they are built from is known to be whole
        self._settled = 0  # of run.pictures, how many from the front have come or are known not to come

    def execute(self) -> None:
        index, run = self._index, self._run
        packets = read_pictures(self._storage, index, run.pictures)
        context = contexts.take(index.info, self._storage.name)
        entry = 0
        for picture, payloads in zip(run.pictures, packets, strict=True):
            self._check(picture, payloads)
            now = int(index.parameter_sets[picture])
            if now != entry and index.flags[picture] & SYNC:
                # Sets sent in an earlier picture, which this run does not feed.
                payloads[0] = framed_parameter_sets(index, now) + bytes(payloads[0])
                entry = now
            self._feed(context, picture, payloads)
            self._hand_over()
        self._drain(context)
        contexts.give_back(index.info, context)
        self._miss()
        self._hand_over()

    def _check(self, picture: int, payloads: Sequence[bytes | memoryview]) -> None:
        if self._index.flags[picture] & DAMAGED:
            self._bad[picture] = "its bytes are incomplete or unreadable"
        try:
            check_whole(self._index, picture, payloads, self._storage.name)
        except DamagedVideoError as error:
            self._bad[picture] = str(error)

    def _feed(self, context: Any, picture: int, payloads: Sequence[Any]) -> None:
        for payload in payloads:
            if not len(payload):
                continue  # lost bytes; to FFmpeg an empty packet would be the end of the stream
            # av.Packet(payload) would refer to the bytes in place, without the zeros FFmpeg needs after them.
            packet: Any = av.Packet(len(payload))
            packet.update(payload)
            packet.pts = picture
            try:
                frames = context.decode(packet)
            except (av.error.FFmpegError, EOFError) as error:
                self._bad.setdefault(picture, f"FFmpeg: {error}")
                continue
            for frame in frames:
                self._take(frame)

    def _drain(self, context: Any) -> None:
        try:
            for frame in context.decode(None):
                self._take(frame)
        except (av.error.FFmpegError, EOFError) as error:
            self._bad.setdefault(self._run.pictures[-1], f"FFmpeg, at the end of the run: {error}")

    def _take(self, frame: Any) -> None:
        picture = frame.pts
        if picture is None:
            return
        self._came.add(picture)
        if frame.is_corrupt:
            self._bad.setdefault(picture, "FFmpeg decoded it with errors")
        if picture in self._run.asked:
            self._held[picture] = frame

    def _miss(self) -> None:
        """At the end of the run, note what should have come out and did not."""
        for picture in self._run.pictures:
            if picture not in self._came and not self._silent(picture):
                self._bad.setdefault(picture, "FFmpeg gave no picture for it")

    def _silent(self, picture: int) -> bool:
        """Whether no output is expected: hidden, or a leading picture of this run's own sync picture."""
        flags = int(self._index.flags[picture])
        return bool(flags & HIDDEN) or bool(flags & LEADING and self._index.start[picture] < self._run.pictures[0])

    def _hand_over(self) -> None:
        """Deliver every held picture whose earlier pictures are all settled."""
        pictures, flags = self._run.pictures, self._index.flags
        while self._settled < len(pictures):
            picture = pictures[self._settled]
            if picture in self._held:
                self._refuse_if_tainted(picture)
                self._deliver(picture, self._held.pop(picture))
            elif picture in self._bad and picture in self._run.asked:
                self._refuse_if_tainted(picture)
            elif not (picture in self._came or picture in self._bad or self._silent(picture)) and (
                picture in self._run.asked or not flags[picture] & DISPOSABLE
            ):
                return
            self._settled += 1

    def _refuse_if_tainted(self, picture: int) -> None:
        index = self._index
        for bad in sorted(self._bad):
            built_on = index.start[picture] <= bad < picture and not index.flags[bad] & DISPOSABLE
            if bad == picture or built_on:
                cause = self._bad[bad]
                which = "it" if bad == picture else f"the picture {picture - bad} before it in decode order"
                raise DamagedVideoError(
                    f"{self._storage.name}: picture {picture} (in decode order) cannot be decoded without error; "
                    f"{which}: {cause}. Ask for other frames, or fetch the file again."
                )
