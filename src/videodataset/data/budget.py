"""Memory that a loader's batches may take while they are on their way."""

from __future__ import annotations

import re
from dataclasses import dataclass

import torch

from videodataset.data.resolve import PlannedBatches

_UNITS = {"": 1, "K": 10**3, "M": 10**6, "G": 10**9, "KI": 2**10, "MI": 2**20, "GI": 2**30, "TI": 2**40, "T": 10**12}
_SHARE_OF_FREE = 10


@dataclass(frozen=True)
class Budget:
    """A number of bytes.

    Attributes:
        size_bytes: what batches may take together.
        is_asked_for: whether it is the user's, which a single batch has to fit in too.
    """

    size_bytes: float
    is_asked_for: bool

    def require_room_for(self, batch: PlannedBatches, together: int) -> None:
        """Refuse what is too large by itself: one batch, or batches planned together, of which there are two lots.

        Raises:
            ValueError: it is.
        """
        if together > 1:
            if 2 * batch.size_bytes > self.size_bytes:
                fit = int(self.size_bytes * len(batch) // (2 * batch.size_bytes))
                raise ValueError(
                    f"memory_budget={self.size_bytes:,.0f} bytes does not hold two windows of {len(batch)} batches: "
                    f"{batch.frames} frames take {batch.size_bytes:,} bytes in each. At most {fit} batches fit in; "
                    f"make the sampler's window smaller, or raise the budget."
                )
        elif self.is_asked_for and batch.size_bytes > self.size_bytes:
            raise ValueError(
                f"memory_budget={self.size_bytes:,.0f} bytes does not hold one batch: {batch.frames} frames take "
                f"{batch.size_bytes:,} bytes, {batch.size_bytes / batch.frames:,.0f} each with the decoded picture "
                f"that it is made from. Raise it, or make batches or frames smaller."
            )


def budget_of(asked: int | None, device: torch.device) -> Budget:
    """Return the budget asked for; else a tenth of the memory that is free on a GPU, and no limit on the CPU."""
    if asked is not None:
        return Budget(asked, is_asked_for=True)
    if device.type == "cuda":
        return Budget(torch.cuda.mem_get_info(device)[0] / _SHARE_OF_FREE, is_asked_for=False)
    return Budget(float("inf"), is_asked_for=False)


def parse_bytes(value: int | str) -> int:
    """Return a number of bytes: 2147483648, "2GiB", "500 MB".

    Raises:
        ValueError: it is none, or not above zero.
    """
    match = re.fullmatch(r"\s*([0-9]+(?:\.[0-9]+)?)\s*([KMGT]?I?)B?\s*", str(value).upper())
    size = int(float(match[1]) * _UNITS[match[2]]) if match and match[2] in _UNITS else 0
    if size <= 0:
        raise ValueError(f'{value!r} is no number of bytes above zero, such as 2147483648, "2GiB" or "500MB"')
    return size
