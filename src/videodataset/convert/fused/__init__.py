"""The fused GPU form of convert: one kernel launch for a batch."""

from videodataset.convert.fused.launch import FusedConvert, FusedUnavailableError, fused_convert
from videodataset.convert.fused.picture import PICTURE, picture_template

__all__ = ["PICTURE", "FusedConvert", "FusedUnavailableError", "fused_convert", "picture_template"]
