"""One decoder context fed forward from a sync picture: what went in, what came out, what went wrong.

Each frame is recognised by its packet's number, which FFmpeg carries through, and never by its place in the output.
"""

from __future__ import annotations

from collections.abc import Container, Sequence
from typing import Any

import av

from videodataset.decode.contexts import contexts
from videodataset.decode.packets import framed_parameter_sets
from videodataset.errors import DamagedVideoError
from videodataset.index.model import DAMAGED, HIDDEN, LEADING, SYNC, VideoIndex
from videodataset.plan import may_be_built_on
from videodataset.storage import Storage

_MAYBE_SILENT = HIDDEN | LEADING
_KEPT_FRAMES = 32  # frames that came out and were not asked for yet; more than any codec's reorder depth


class Session:
    """A context in use.

    A picture is refused if anything it may be built from, from its start picture on, is incomplete, raised an error,
    came out marked corrupt, or did not come out. So it is held until all of these are out, which reordering delays.

    Args:
        storage: the video's bytes.
        index: the video's index.
        start: the sync picture to begin with.
        wanted: pictures that `pop` will be asked for; None keeps all. A frame that is let go gives its memory to the
            next one, which finds it in the processor's cache.

    Attributes:
        start: the sync picture that was fed first.
        next: the first picture, in decode order, that has not been fed or left out.
    """

    def __init__(self, storage: Storage, index: VideoIndex, start: int, wanted: Container[int] | None = None) -> None:
        self.storage, self.index, self.start, self.next = storage, index, start, start
        self._rows = index.rows
        self._wanted = wanted
        self._context = contexts.take(index.info, storage.name)
        self._entry = 0  # of the parameter set table, in force in the context
        self._inside: set[int] = set()  # fed, to come out yet
        self._frames: dict[int, Any] = {}  # came out
        self._bad: dict[int, str] = {}  # picture to what is wrong with it
        self._left_out_layer = 255  # lowest temporal layer of a picture that was left out

    def can_reach(self, picture: int) -> bool:
        """Whether this picture is here, or comes when feeding goes on."""
        if picture < self.next:
            return picture in self._frames or (self._context is not None and picture in self._inside)
        rows = self._rows
        return (
            self._context is not None
            and rows.start[picture] >= self.start
            and rows.layer[picture] <= self._left_out_layer
        )

    def feed(self, picture: int, payloads: Sequence[bytes | memoryview]) -> None:
        """Feed the packets of a picture; those between the last one and this one are left out."""
        rows = self._rows
        if picture > self.next:
            self._left_out_layer = min(self._left_out_layer, *rows.layer[self.next : picture])
        self.next = picture + 1
        flags = rows.flags[picture]
        for number, payload in enumerate(payloads, rows.first_packet[picture]):
            if len(payload) != rows.packet_size[number]:
                self._note_missing_bytes(picture, number, len(payload))
        if flags & DAMAGED:
            self._bad.setdefault(picture, "its bytes are incomplete or unreadable")
        if not flags & _MAYBE_SILENT or not self._is_silent(picture, flags):
            self._inside.add(picture)
        if flags & SYNC and rows.parameter_sets[picture] != self._entry:
            # Sets that were sent with an earlier picture, which was not fed.
            self._entry = rows.parameter_sets[picture]
            payloads = [framed_parameter_sets(self.index, self._entry) + bytes(payloads[0]), *payloads[1:]]
        for payload in payloads:
            if not len(payload):  # to FFmpeg an empty packet is the end of the stream
                continue
            # av.Packet(payload) would refer to the bytes in place, without the zeros FFmpeg needs after them.
            packet: Any = av.Packet(len(payload))
            packet.update(payload)
            packet.pts = picture
            try:
                for frame in self._context.decode(packet):
                    self._take(frame)
            except (av.error.FFmpegError, EOFError) as error:
                self._fail(picture, f"FFmpeg: {error}")

    def finish(self) -> None:
        """Make every picture come out, and give the context back: nothing can be fed any more."""
        if self._context is None:
            return
        try:
            for frame in self._context.decode(None):
                self._take(frame)
        except (av.error.FFmpegError, EOFError) as error:
            self._fail(self.next - 1, f"FFmpeg, at the end of the run: {error}")
        for picture in sorted(self._inside):
            self._fail(picture, "FFmpeg gave no picture for it")
        self.close()

    def close(self) -> None:
        """Give the context back as it is; frames that came out can still be popped."""
        if self._context is not None:
            contexts.give_back(self.index.info, self._context)
            self._context = None

    def settled(self, pictures: Sequence[int]) -> list[int]:
        """Return which of these have come out or will not come out whole: those that `pop` may have news of."""
        return [picture for picture in pictures if picture in self._frames or picture in self._bad]

    def pop(self, picture: int) -> Any | None:
        """Return a picture's frame, or None while it may still come.

        Raises:
            DamagedVideoError: it cannot be decoded without error.
        """
        if picture in self._bad:
            self._refuse_if_tainted(picture)
        if picture not in self._frames:
            return None
        if self._inside and any(may_be_built_on(self.index, picture, other) for other in self._inside):
            return None
        if self._bad:
            self._refuse_if_tainted(picture)
        return self._frames.pop(picture)

    def forget(self) -> None:
        """Let go of frames and faults that nothing asked for will need."""
        for picture in sorted(self._frames)[:-_KEPT_FRAMES]:
            del self._frames[picture]
        if self._bad and self._inside:
            oldest = self._rows.start[min(self._inside)]
            self._bad = {picture: cause for picture, cause in self._bad.items() if picture >= oldest}

    def _note_missing_bytes(self, picture: int, packet: int, size_bytes: int) -> None:
        self._bad[picture] = (
            f"the source ends inside it, {size_bytes} of {self._rows.packet_size[packet]} bytes at offset "
            f"{self._rows.packet_offset[packet]} are there"
        )

    def _is_silent(self, picture: int, flags: int) -> bool:
        """Whether no output is expected: hidden, or a leading picture of the session's own sync picture."""
        return bool(flags & HIDDEN or (flags & LEADING and self._rows.start[picture] < self.start))

    def _take(self, frame: Any) -> None:
        picture = frame.pts
        if picture is None:
            return
        self._inside.discard(picture)
        if self._wanted is None or picture in self._wanted:
            self._frames[picture] = frame
        if frame.is_corrupt and not self._is_silent(picture, self._rows.flags[picture]):
            self._bad.setdefault(picture, "FFmpeg decoded it with errors")

    def _fail(self, picture: int, cause: str) -> None:
        self._inside.discard(picture)
        if not self._is_silent(picture, self._rows.flags[picture]):
            self._bad.setdefault(picture, cause)

    def _refuse_if_tainted(self, picture: int) -> None:
        for bad in sorted(self._bad):
            built_on = self._rows.start[picture] <= bad and may_be_built_on(self.index, picture, bad)
            if bad == picture or built_on:
                which = "it" if bad == picture else f"the picture {picture - bad} before it in decode order"
                raise DamagedVideoError(
                    f"{self.storage.name}: picture {picture} (in decode order) cannot be decoded without error; "
                    f"about {which}: {self._bad[bad]}. Ask for other frames, or fetch the file again."
                )
