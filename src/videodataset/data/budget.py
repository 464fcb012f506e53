"""Memory that a loader's batches may take while they are on their way."""

from __future__ import annotations

from dataclasses import dataclass

import torch

from videodataset.data.resolve import PlannedBatches

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
