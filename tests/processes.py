"""The child processes of the test's own process."""

from __future__ import annotations

import os
import time
from pathlib import Path


def children() -> set[int]:
    return {int(pid) for pid in Path(f"/proc/{os.getpid()}/task/{os.getpid()}/children").read_text().split()}


def wait_until_gone(pids: set[int]) -> None:
    deadline = time.monotonic() + 20
    while pids & children():
        assert time.monotonic() < deadline, "a worker was left behind"
        time.sleep(0.05)
