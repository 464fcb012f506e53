"""Convert: decoded pictures to RGB. One definition, in `color`; a CPU form here."""

from videodataset.convert.color import ColorDescription, color_description
from videodataset.convert.cpu import to_rgb

__all__ = ["ColorDescription", "color_description", "to_rgb"]
