"""A rectangle of a picture: (top, left, height, width) in pixels, in displayed or in coded coordinates."""

from __future__ import annotations

from videodataset.index.model import Orientation

Crop = tuple[int, int, int, int]


def check_crop(crop: Crop, size: tuple[int, int], name: str) -> None:
    """Raise unless the crop lies inside a picture.

    Args:
        crop: (top, left, height, width), pixels.
        size: (height, width) of the picture.
        name: the source, for the message.

    Raises:
        ValueError: it is empty or reaches outside.
    """
    top, left, height, width = crop
    if top < 0 or left < 0 or height < 1 or width < 1 or top + height > size[0] or left + width > size[1]:
        raise ValueError(
            f"{name}: crop (top={top}, left={left}, height={height}, width={width}) is not inside the displayed "
            f"picture, {size[0]} high and {size[1]} wide. Keep top + height <= {size[0]} and left + width <= {size[1]}."
        )


def coded_crop(crop: Crop | None, coded_size: tuple[int, int], orientation: Orientation, name: str) -> Crop:
    """Return where a crop of the displayed picture lies in the decoded one, which is not yet turned.

    Args:
        crop: (top, left, height, width) in displayed coordinates; None is the whole picture.
        coded_size: (height, width) of the decoded picture.
        orientation: how it becomes the displayed one.
        name: the source, for messages.

    Raises:
        ValueError: the crop is empty or reaches outside.
    """
    if crop is None:
        return (0, 0, *coded_size)
    displayed = coded_size[::-1] if orientation.transpose else coded_size
    check_crop(crop, displayed, name)
    top, left, height, width = crop
    if orientation.flip_y:
        top = displayed[0] - top - height
    if orientation.flip_x:
        left = displayed[1] - left - width
    return (left, top, width, height) if orientation.transpose else (top, left, height, width)
