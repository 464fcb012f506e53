"""Reading headers bit by bit."""

from __future__ import annotations


class TruncatedHeaderError(Exception):
    """The header ends before all of its fields were read."""


class BitReader:
    """Most significant bit first, as every video standard writes its syntax tables."""

    __slots__ = ("_left", "_value")

    def __init__(self, data: bytes | memoryview) -> None:
        self._value = int.from_bytes(data, "big")
        self._left = 8 * len(data)

    def u(self, bits: int) -> int:
        """Read an unsigned number of so many bits."""
        self._left -= bits
        if self._left < 0:
            raise TruncatedHeaderError
        return (self._value >> self._left) & ((1 << bits) - 1)

    def flag(self) -> bool:
        """Read one bit."""
        return self.u(1) == 1

    def ue(self) -> int:
        """Read an unsigned Exp-Golomb code (ITU-T H.264 9.1)."""
        zeros = 0
        while not self.u(1):
            zeros += 1
            if zeros > 32:
                raise TruncatedHeaderError
        return (1 << zeros) - 1 + self.u(zeros)

    def se(self) -> int:
        """Read a signed Exp-Golomb code (ITU-T H.264 9.1.1)."""
        code = self.ue()
        return (code + 1) // 2 if code % 2 else -(code // 2)
