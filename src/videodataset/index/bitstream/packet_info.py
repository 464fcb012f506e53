"""What is learnt from one packet."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class PacketInfo:
    """Facts about the picture a packet holds.

    Attributes:
        sync: decoding may start at this packet.
        new_picture: False when this packet is the second field of the picture begun by the packet before.
        shown: False for a picture that is decoded and never displayed.
        disposable: no other picture (of its own temporal layer, in HEVC) refers to it.
        temporal_layer: 0 where the codec has none, or it is unknown.
        skipped_leading: undecodable when decoding starts at the sync picture it follows.
        order: (coded video sequence, picture order count), which sorts pictures for display; None = unknown.
        unsure: the headers could not be read; the other fields then hold what is safe to assume.
    """

    sync: bool = False
    new_picture: bool = True
    shown: bool = True
    disposable: bool = False
    temporal_layer: int = 0
    skipped_leading: bool = False
    order: tuple[int, int] | None = None
    unsure: bool = False


UNSURE = PacketInfo(unsure=True)
