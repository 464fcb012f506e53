"""VideoDataset: any frame of any video, exactly, as training data."""

from importlib.metadata import PackageNotFoundError, version

from videodataset.convert import Transform
from videodataset.data import (
    BaseVideoDataset,
    DataLoader,
    FrameRef,
    FrameTable,
    GopShuffleSampler,
    LoaderStatistics,
    PendingFrames,
    collate,
    decode,
    tensorboard,
)
from videodataset.decode.nvdec import close_engines
from videodataset.errors import (
    DamagedVideoError,
    ForkedCudaError,
    FrameIndexError,
    NoVideoStreamError,
    NvdecUnavailableError,
    UnreadableVideoError,
    UnsupportedVideoError,
    VideoDatasetError,
)
from videodataset.fetch import FrameCache
from videodataset.frames import Frame, FrameBatch
from videodataset.metadata import VideoStreamMetadata
from videodataset.video_decoder import CpuFallbackStatus, VideoDecoder

try:
    __version__ = version("videodataset-nvdec")
except PackageNotFoundError:  # run from a source tree that is not installed
    __version__ = "0+unknown"

__all__ = [
    "BaseVideoDataset",
    "CpuFallbackStatus",
    "DamagedVideoError",
    "DataLoader",
    "ForkedCudaError",
    "Frame",
    "FrameBatch",
    "FrameCache",
    "FrameIndexError",
    "FrameRef",
    "FrameTable",
    "GopShuffleSampler",
    "LoaderStatistics",
    "NoVideoStreamError",
    "NvdecUnavailableError",
    "PendingFrames",
    "Transform",
    "UnreadableVideoError",
    "UnsupportedVideoError",
    "VideoDatasetError",
    "VideoDecoder",
    "VideoStreamMetadata",
    "__version__",
    "close_engines",
    "collate",
    "decode",
    "tensorboard",
]
