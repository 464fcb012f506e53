"""What stands beside the numbers of every record: command, date, commit, machine, versions."""

from __future__ import annotations

import os
import platform
import subprocess
import sys
import time
from importlib.metadata import version
from pathlib import Path
from typing import Any

from benchmarks.readers import READERS, version_of


def facts_of_the_run(module: str) -> dict[str, Any]:
    """Command, date, commit, machine and versions of this run of `python -m module`."""
    import av

    info = Path("/proc/cpuinfo")
    lines = info.read_text().splitlines() if info.exists() else []
    names = [line.split(":")[1].strip() for line in lines if "model name" in line]
    return {
        "command": " ".join([f"python -m {module}", *sys.argv[1:]]),
        "date": time.strftime("%Y-%m-%d"),
        "commit": _first_line("git", "describe", "--always", "--dirty"),
        "machine": {
            "processor": names[0] if names else platform.processor(),
            "cores": os.cpu_count(),
            "python": platform.python_version(),
        },
        "versions": {name: version_of(name) for name in READERS}
        | {
            "torch": version("torch"),
            "FFmpeg of PyAV": av.ffmpeg_version_info,
            "ffmpeg": _first_line("ffmpeg", "-version"),
        },
    }


def _first_line(*command: str) -> str | None:
    try:
        return subprocess.check_output(command, text=True, stderr=subprocess.DEVNULL).splitlines()[0]
    except (OSError, subprocess.CalledProcessError, IndexError):
        return None
