"""The definition of YUV to RGB that every form of convert follows.

    Y' = (Y - offset) / luma span,  Cb = (U - middle) / chroma span,  Cr likewise    (ITU-T H.273 8.3, equations 20-31)
    R = Y' + 2 (1 - Kr) Cr,  B = Y' + 2 (1 - Kb) Cb,  G = (Y' - Kr R - Kb B) / (1 - Kr - Kb)

Chroma is repeated to full size (nearest), not interpolated. The result is scaled to 0..255, rounded once, clamped. A
stream without a matrix tag is BT.601, one without a range tag limited, whatever its size: what FFmpeg's scaler and
torchcodec give.
"""

from __future__ import annotations

from typing import NamedTuple

from videodataset.errors import UnsupportedVideoError

#: (Kr, Kb) by MatrixCoefficients (ITU-T H.273 table 4); 2 = unspecified.
_LUMA_WEIGHTS = {
    1: (0.2126, 0.0722),  # BT.709
    2: (0.299, 0.114),
    4: (0.30, 0.11),  # FCC
    5: (0.299, 0.114),  # BT.601, 625 lines
    6: (0.299, 0.114),  # BT.601, 525 lines
    7: (0.212, 0.087),  # SMPTE 240M
    9: (0.2627, 0.0593),  # BT.2020 non-constant luminance
}
UNSPECIFIED_MATRIX, BT601_MATRIX, RGB_MATRIX = 2, 5, 0
LIMITED_RANGE, FULL_RANGE = 1, 2


class ColorDescription(NamedTuple):
    """What the samples of a picture mean.

    Attributes:
        matrix: MatrixCoefficients with "unspecified" resolved.
        full_range: whether samples use all codes (0 to 2**depth - 1), rather than 16-235 (240) at 8 bits.
    """

    matrix: int
    full_range: bool

    @property
    def luma_weights(self) -> tuple[float, float]:
        """(Kr, Kb)."""
        return _LUMA_WEIGHTS[self.matrix]

    def spans(self, depth: int) -> tuple[float, float, float, float]:
        """(luma offset, luma span, chroma middle, chroma span) in codes of `depth` bits."""
        unit, top = 2 ** (depth - 8), 2**depth - 1
        if self.full_range:
            return 0.0, float(top), 128.0 * unit, float(top)
        return 16.0 * unit, 219.0 * unit, 128.0 * unit, 224.0 * unit


def color_description(matrix: int, color_range: int, pixel_format: str, name: str) -> ColorDescription:
    """Resolve the tags of a picture.

    Args:
        matrix: MatrixCoefficients, 2 where not said.
        color_range: 0 not said, 1 limited, 2 full.
        pixel_format: FFmpeg's name; the yuvj family is full range by itself.
        name: the source, for messages.

    Raises:
        UnsupportedVideoError: a matrix that is no linear combination of Y, Cb and Cr, such as ICtCp.
    """
    full_range = color_range == FULL_RANGE or pixel_format.startswith("yuvj")
    if pixel_format.startswith(("gbr", "gray")):
        return ColorDescription(BT601_MATRIX, full_range or pixel_format.startswith("gbr"))
    if matrix not in _LUMA_WEIGHTS:
        raise UnsupportedVideoError(
            f"{name}: colour matrix {matrix} (ITU-T H.273) of {pixel_format} is not supported; known are "
            f"{sorted(_LUMA_WEIGHTS)}. Re-encode the video with -colorspace bt709."
        )
    return ColorDescription(BT601_MATRIX if matrix == UNSPECIFIED_MATRIX else matrix, full_range)
