"""Many videos in one process: few open files, flat memory. Each runs in a process with `ulimit -n 256`."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from clips import ClipStore

pytestmark = pytest.mark.timeout(300)
DISTINCT = 40

PRELUDE = """
import gc, os, resource, sys
from pathlib import Path
import videodataset as vd
from clips import read_number

resource.setrlimit(resource.RLIMIT_NOFILE, (256, 256))
paths = sorted(Path(sys.argv[1]).glob("*.mp4"))

def resident_mib():
    return int(Path("/proc/self/statm").read_text().split()[1]) * resource.getpagesize() / 2**20

def open_files():
    return len(os.listdir("/proc/self/fd"))

def check(video, number):
    assert read_number(video[number]) == number, number
"""

ONE_AFTER_ANOTHER = """
for k in range(3000):
    check(vd.VideoDecoder(paths[k % len(paths)], device="cpu"), k % 24)
    if k == 600:
        before = resident_mib()
    assert open_files() < 200, open_files()
growth = resident_mib() - before
assert growth < 24, f"{growth:.0f} MiB more after 2,400 openings"
"""

KEPT_OPEN = """
check(vd.VideoDecoder(paths[0], device="cpu"), 3)
before = resident_mib()
videos = [vd.VideoDecoder(paths[k % len(paths)], device="cpu") for k in range(2000)]
assert open_files() < 200, open_files()
for k in range(0, 2000, 7):
    check(videos[k], k % 24)
assert open_files() < 200, open_files()
kib = (resident_mib() - before) / 2000 * 1024
assert kib < 60, f"{kib:.0f} KiB for each decoder kept"
"""

ALL_FRAMES_OFTEN = """
video = vd.VideoDecoder(paths[0], device="cpu")
for k in range(60):
    assert len(video.get_all_frames()) == 24
    if k == 20:
        before = resident_mib()
growth = resident_mib() - before
assert growth < 16, f"{growth:.0f} MiB more after 40 readings"
"""


@pytest.fixture(scope="module")
def many(clip: ClipStore, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder of distinct files, two clips copied."""
    folder = tmp_path_factory.mktemp("many")
    for k in range(DISTINCT):
        source = clip(("h264_g2", "h264_intra")[k % 2])
        (folder / f"{k:03}.mp4").write_bytes(source.read_bytes())
    return folder


@pytest.mark.parametrize("script", [ONE_AFTER_ANOTHER, KEPT_OPEN, ALL_FRAMES_OFTEN], ids=["openings", "kept", "frames"])
def test_limits(script: str, many: Path, index_dir: Path) -> None:
    path = os.pathsep.join([str(Path(__file__).parent), *filter(None, [os.environ.get("PYTHONPATH")])])
    done = subprocess.run(
        [sys.executable, "-c", PRELUDE + script, str(many)],
        env={**os.environ, "PYTHONPATH": path, "OMP_NUM_THREADS": "1"},
        capture_output=True,
        text=True,
        timeout=280,
        check=False,
    )
    assert done.returncode == 0, done.stderr[-3000:]
