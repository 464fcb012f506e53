"""Numbers of bytes as people write them."""

from __future__ import annotations

import re

_UNITS = {"": 1, "K": 10**3, "M": 10**6, "G": 10**9, "KI": 2**10, "MI": 2**20, "GI": 2**30, "TI": 2**40, "T": 10**12}


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
