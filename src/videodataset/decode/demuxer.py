"""Packets by number through FFmpeg's demuxer, where packets do not lie in one piece (MPEG-TS, laced Matroska).

    want packet n ──▶ is the open demuxer just before n? read on
                      else seek to the sync packet's decode time, read on until a packet is recognised, count from there
                      else (no seek, or it landed behind n) open anew and count from 0

A demuxer gives no packet numbers. A packet is recognised by (size, CRC-32, dts), which the index holds; every packet
that is handed out is compared with the index again, so a changed source is an error and never another picture.
"""

from __future__ import annotations

import os
import threading
import zlib
from collections import OrderedDict
from collections.abc import Sequence
from contextlib import ExitStack
from typing import Any

import av

from videodataset.errors import UnreadableVideoError
from videodataset.index.build import open_container
from videodataset.index.model import NO_TIME, VideoIndex
from videodataset.storage import Storage

_READ_ON = 64  # packets: reading on over so few is cheaper than a seek
_MAX_LOST = 2000  # packets to look at after a seek before giving it up


class Demuxer:
    """One open demuxer and the number of the packet it gives next."""

    def __init__(self, storage: Storage, index: VideoIndex) -> None:
        self.storage, self.index = storage, index
        keys = zip(index.packet_size.tolist(), index.packet_crc.tolist(), index.packet_dts.tolist(), strict=True)
        self._number_of = {key: number for number, key in enumerate(keys)}
        self._stack = ExitStack()
        self._open()

    def close(self) -> None:
        """Close FFmpeg's demuxer."""
        self._stack.close()

    def read(self, packets: Sequence[int]) -> list[bytes]:
        """Return the bytes of the packets with these rising numbers.

        Raises:
            UnreadableVideoError: the source no longer gives the packets that were indexed.
        """
        if packets and not self._next <= packets[0] <= self._next + _READ_ON:
            self._seek(packets[0])
        out = []
        for number in packets:
            packet = self._advance()
            while packet is not None and self._next <= number:
                packet = self._advance()
            if packet is None or self._key(packet) != self._key_in_index(number):
                raise UnreadableVideoError(
                    f"{self.storage.name}: packet {number} is not the one that was indexed. "
                    f"The source changed; open it again."
                )
            out.append(bytes(packet))
        return out

    def _open(self) -> None:
        self._stack.close()
        container = self._stack.enter_context(open_container(self.storage))
        self._container, self._stream = container, container.streams[self.index.info.stream_index]
        self._packets = container.demux(self._stream)
        self._next = 0

    def _advance(self) -> Any | None:
        for packet in self._packets:
            if packet.size:
                self._next += 1
                return packet
        return None

    def _seek(self, number: int) -> None:
        dts = int(self.index.packet_dts[number])
        if dts != NO_TIME and number > _READ_ON and self._land(number, dts):
            return
        self._open()

    def _land(self, number: int, dts: int) -> bool:
        """Seek before packet `number`; whether the demuxer now stands at a known packet at or before it."""
        try:
            self._container.seek(dts, stream=self._stream, backward=True)
            self._packets = self._container.demux(self._stream)
            for _ in range(_MAX_LOST):
                packet = next(self._packets, None)
                if packet is None:
                    return False
                found = self._number_of.get(self._key(packet)) if packet.size else None
                if found is not None and found >= number:
                    return False  # at or past it, and the packet is consumed
                if found is not None:
                    self._next = found + 1
                    return True
        except (av.error.FFmpegError, OSError):
            return False
        return False

    def _key(self, packet: Any) -> tuple[int, int, int]:
        return packet.size, zlib.crc32(memoryview(packet)), NO_TIME if packet.dts is None else packet.dts

    def _key_in_index(self, number: int) -> tuple[int, int, int]:
        index = self.index
        return int(index.packet_size[number]), int(index.packet_crc[number]), int(index.packet_dts[number])


class Demuxers:
    """Idle demuxers of this process, least recently used dropped; a demuxer in use belongs to its user."""

    def __init__(self, limit: int) -> None:
        self._limit = limit
        self._lock = threading.Lock()
        self._idle: OrderedDict[int, Demuxer] = OrderedDict()

    def take(self, storage: Storage, index: VideoIndex) -> Demuxer:
        """Return the idle demuxer of this storage and index, or a new one."""
        with self._lock:
            demuxer = self._idle.pop(id(index), None)
        if demuxer is not None and demuxer.index is index and demuxer.storage is storage:
            return demuxer
        return Demuxer(storage, index)

    def give_back(self, demuxer: Demuxer) -> None:
        """Keep a demuxer for the next read."""
        with self._lock:
            self._idle[id(demuxer.index)] = demuxer
            dropped = [self._idle.popitem(last=False)[1] for _ in range(len(self._idle) - self._limit)]
        for old in dropped:
            old.close()

    def after_fork(self) -> None:
        """Start empty: another thread of the parent may have been in the middle of anything."""
        self._lock = threading.Lock()
        self._idle = OrderedDict()


demuxers = Demuxers(limit=16)
os.register_at_fork(after_in_child=demuxers.after_fork)
