"""Parameter sets in force: by kind and number, the newest wins."""

from __future__ import annotations


class UnitTable:
    """Keeps units by key, and their tuple, which stays the same object until one changes."""

    def __init__(self) -> None:
        self._units: dict[tuple[int, int], bytes] = {}
        self.units: tuple[bytes, ...] = ()

    def put(self, kind: int, number: int, unit: bytes) -> bool:
        """Set a unit; whether that changed anything. Lower kinds come first in `units`."""
        if self._units.get((kind, number)) == unit:
            return False
        self._units[kind, number] = unit
        self.units = tuple(self._units[key] for key in sorted(self._units))
        return True
