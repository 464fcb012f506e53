"""Serve: references to frames, and the loaders that turn them into batches."""

from videodataset.data.collate import collate
from videodataset.data.dataset import BaseVideoDataset
from videodataset.data.decode import decode
from videodataset.data.frame_ref import FrameRef
from videodataset.data.frame_table import FrameTable
from videodataset.data.gop_shuffle import GopShuffleSampler
from videodataset.data.loader import DataLoader
from videodataset.data.pending import PendingFrames
from videodataset.data.statistics import LoaderStatistics, tensorboard

__all__ = [
    "BaseVideoDataset",
    "DataLoader",
    "FrameRef",
    "FrameTable",
    "GopShuffleSampler",
    "LoaderStatistics",
    "PendingFrames",
    "collate",
    "decode",
    "tensorboard",
]
