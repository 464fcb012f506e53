"""What one frame costs: sums over the pictures that `plan_runs` decodes for it, for every displayed frame at once.

The plan of frame by frame looks at a whole group of pictures per frame, which is quadratic in its length. Here each sum
is the difference of two running sums, one pair for each temporal layer. A frame p that starts from sync picture s:

    s                                       p      s is the last sync picture before p:
    ■ l l · · · · · · · · · · · · · · · · · ▲      leading pictures l of s are left out

    s                           o           p      p is a leading picture of o, and starts one sync picture earlier:
    ■ l l · · · · · · · · · · · ■ l l l l l ▲      those of s are left out, those of o are not
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from videodataset.index.model import DISPOSABLE, LEADING, Int64Array, VideoIndex
from videodataset.index.order import sync_before


def sums_of_all(index: VideoIndex, values: npt.ArrayLike) -> Int64Array:
    """Sum, for each displayed frame, over every picture from its sync picture to it.

    Args:
        index: the video.
        values: one whole number per picture: 1 to count them, or their bytes.
    """
    before = _running_sum(np.asarray(values, np.int64))
    asked = index.presentation
    total: Int64Array = before[asked + 1] - before[index.start[asked]]
    return total


def sums_of_needed(index: VideoIndex, values: npt.ArrayLike) -> Int64Array:
    """Sum, for each displayed frame, over the pictures that the plan for this frame alone decodes.

    Args:
        index: the video.
        values: one whole number per picture: 1 to count them, or their bytes.
    """
    each = np.asarray(values, np.int64)
    flags, layer = index.flags, index.layer
    kept, leading = (flags & DISPOSABLE) == 0, (flags & LEADING) != 0
    asked = index.presentation
    start, own_sync = index.start[asked], sync_before(flags)[asked]
    total: Int64Array = each[asked] + np.where(asked == start, 0, each[start])
    for highest in np.unique(layer[asked]):
        here = layer[asked] == highest
        p, s, o = asked[here], start[here], own_sync[here]
        needed = (layer < highest) | ((layer == highest) & kept)
        with_leading = _running_sum(each * needed)
        without = _running_sum(each * (needed & ~leading))
        in_one_group = without[np.maximum(p, s + 1)] - without[s + 1]
        in_two_groups = without[o] - without[np.minimum(s + 1, o)] + with_leading[p] - with_leading[o]
        total[here] += np.where(s == o, in_one_group, in_two_groups)
    return total


def picture_sizes_bytes(index: VideoIndex) -> Int64Array:
    """Return the bytes of each picture's packets."""
    sizes: Int64Array = np.diff(_running_sum(index.packet_size)[index.first_packet])
    return sizes


def _running_sum(values: Int64Array) -> Int64Array:
    """Entry k is the sum of the values before k."""
    return np.concatenate([[0], np.cumsum(values, dtype=np.int64)])
