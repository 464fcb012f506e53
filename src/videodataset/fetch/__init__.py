"""Fetch: asked pictures of many videos into the caller's tensors. Plan, engine and convert, put together."""

from videodataset.fetch.ask import Ask, Output
from videodataset.fetch.base import Fetch
from videodataset.fetch.cached import CachedFetch
from videodataset.fetch.device import require_device, target_device
from videodataset.fetch.fetch import default_threads, fetch, fetch_frame
from videodataset.fetch.frame_cache import FrameCache
from videodataset.fetch.work import Work

__all__ = [
    "Ask",
    "CachedFetch",
    "Fetch",
    "FrameCache",
    "Output",
    "Work",
    "default_threads",
    "fetch",
    "fetch_frame",
    "require_device",
    "target_device",
]
