"""Small videos made by script, each with the frame's number drawn in the picture."""

from clips.catalogue import CLIPS, Clip
from clips.damage import DAMAGED
from clips.draw import read_number
from clips.store import ClipStore

__all__ = ["CLIPS", "DAMAGED", "Clip", "ClipStore", "read_number"]
