"""A run's packets as the decoder wants them: direct reads where the bytes are addressable, else through the demuxer."""

from __future__ import annotations

from collections.abc import Sequence

from videodataset.decode.demuxer import Demuxer, demuxers
from videodataset.index.model import VideoIndex
from videodataset.storage import Storage
from videodataset.storage.base import read_ranges

_START_CODE = b"\0\0\0\1"


def read_pictures(storage: Storage, index: VideoIndex, pictures: Sequence[int]) -> list[list[bytes | memoryview]]:
    """Return the packets of each picture, in decode order.

    A packet that ends past the end of the source comes short; the caller compares with `index.packet_size`.

    Raises:
        UnreadableVideoError: the source cannot be read, or is not the one that was indexed.
    """
    rows = index.rows
    first = rows.first_packet
    counts = [first[p + 1] - first[p] for p in pictures]
    packets = [first[p] + k for p, count in zip(pictures, counts, strict=True) for k in range(count)]
    if index.info.direct:
        ranges = [(rows.packet_offset[k], rows.packet_size[k]) for k in packets]
        payloads: list[bytes | memoryview] = list(read_ranges(storage, ranges))
    else:
        payloads = _through_demuxer(storage, index, packets)
    at, out = 0, []
    for count in counts:
        out.append(payloads[at : at + count])
        at += count
    return out


def _through_demuxer(storage: Storage, index: VideoIndex, packets: Sequence[int]) -> list[bytes | memoryview]:
    demuxer: Demuxer = demuxers.take(storage, index)
    payloads = demuxer.read(packets)
    demuxers.give_back(demuxer)  # after an error it is dropped instead
    return list(payloads)


def framed_parameter_sets(index: VideoIndex, entry: int) -> bytes:
    """Return the parameter sets of a table entry, framed as the stream frames its units."""
    units, length_size = index.parameter_set_table[entry], index.info.nal_length_size
    if index.info.codec not in ("h264", "hevc"):
        return b"".join(units)  # units of other codecs carry their own start codes or sizes
    if length_size:
        return b"".join(len(unit).to_bytes(length_size, "big") + unit for unit in units)
    return b"".join(_START_CODE + unit for unit in units)
