"""Convert: decoded pictures to what the user asked for. Definitions in `color` and `transform`; a CPU form here."""

from videodataset.convert.color import ColorDescription, color_description
from videodataset.convert.cpu import check_convertible, to_rgb
from videodataset.convert.crop import Crop
from videodataset.convert.finish import finish
from videodataset.convert.planes import to_gray16, to_yuv
from videodataset.convert.transform import Placement, Transform

__all__ = [
    "ColorDescription",
    "Crop",
    "Placement",
    "Transform",
    "check_convertible",
    "color_description",
    "finish",
    "to_gray16",
    "to_rgb",
    "to_yuv",
]
