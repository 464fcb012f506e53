"""Index: one pass over a container, after which the container is never needed again to find a frame."""

from videodataset.index.build import build_index
from videodataset.index.model import Orientation, VideoIndex
from videodataset.index.saved import load_or_build, saved_index_is_current

__all__ = ["Orientation", "VideoIndex", "build_index", "load_or_build", "saved_index_is_current"]
