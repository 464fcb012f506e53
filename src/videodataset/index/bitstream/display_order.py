"""The display order of MPEG-1, 2 and 4: a B picture is shown at once, an I or P picture when the next one comes."""

from __future__ import annotations


class DisplayOrder:
    """Numbers pictures in decode order so that sorting gives display order.

    An anchor (I or P) gets an even number above all before it; the B pictures after it, which are shown before it, get
    numbers between it and the anchor before.
    """

    def __init__(self) -> None:
        self._anchor = 0
        self._since = 0

    _SPACE = 1 << 20

    def next(self, is_b: bool) -> tuple[int, int]:
        """Return the number of the next picture in decode order."""
        if is_b:
            self._since += 1
            return 0, (self._anchor - 1) * self._SPACE + self._since
        self._anchor += 1
        self._since = 0
        return 0, self._anchor * self._SPACE
