"""What this machine has to decode with, and what is missing."""

from __future__ import annotations

import contextlib
import os
import platform
import sys
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass, field
from importlib.metadata import PackageNotFoundError, packages_distributions, version
from pathlib import Path
from typing import Any

_CODECS = {"mpeg2video": 1, "mpeg4": 2, "h264": 4, "hevc": 8, "vp8": 9, "vp9": 10, "av1": 11}
_CHROMAS = {"4:0:0": 0, "4:2:0": 1, "4:2:2": 2, "4:4:4": 3}
_CAPABILITIES = "NVIDIA_DRIVER_CAPABILITIES"


@dataclass(frozen=True)
class Problem:
    """One thing that is wrong, and the command or step that mends it."""

    what: str
    remedy: str


@dataclass(frozen=True)
class DecoderCaps:
    """What one GPU's NVDEC takes of one kind of stream; sizes in pixels."""

    codec: str
    chroma: str
    depth: int
    engines: int
    min_width: int
    min_height: int
    max_width: int
    max_height: int


@dataclass
class Diagnosis:
    """What was found.

    Attributes:
        gpu_decodes: whether NVDEC can be used from this process.
        versions: of Python, this library and what it stands on, by name.
        driver: the driver's libraries, as the native core sees them.
        container_capabilities: the container variable NVIDIA_DRIVER_CAPABILITIES, None where it is not set.
        decoders: what the first GPU decodes.
        problems: what keeps the GPU from decoding, or will surprise.
    """

    gpu_decodes: bool = False
    versions: dict[str, str] = field(default_factory=dict)
    driver: dict[str, Any] = field(default_factory=dict)
    container_capabilities: str | None = None
    decoders: list[DecoderCaps] = field(default_factory=list)
    problems: list[Problem] = field(default_factory=list)

    def as_dict(self) -> dict[str, Any]:
        """The fields by name."""
        return asdict(self)

    def facts(self) -> Iterator[tuple[str, str]]:
        """Lines for a table."""
        yield from self.versions.items()
        if self.driver:
            yield "CUDA of the driver", _dotted(self.driver["cuda_version"])
            yield "libcuda", self.driver["cuda_library"] or "not found"
            yield "libnvcuvid", self.driver["cuvid_library"] or "not found"
            yield "GPUs", ", ".join(self.driver["devices"]) or "none"
        yield _CAPABILITIES, self.container_capabilities or "not set"


def diagnose() -> Diagnosis:
    """Look at this machine. Raises nothing: what goes wrong is a problem of the diagnosis."""
    found = Diagnosis(container_capabilities=os.environ.get(_CAPABILITIES))
    found.versions = _versions()
    _look_at_installation(found)
    core = _native_core(found)
    if core is not None:
        found.driver = core.driver_info()
        _look_at_driver(found)
        _look_at_torch(found)
        if not found.driver["problem"]:
            _look_at_decoders(found, core)
    found.gpu_decodes = bool(found.decoders)
    return found


def _versions() -> dict[str, str]:
    import av
    import torch

    own = "not installed"
    with contextlib.suppress(PackageNotFoundError):
        own = version("videodataset-nvdec")
    return {
        "system": platform.platform(),
        "Python": sys.version.split()[0],
        "videodataset-nvdec": own,
        "torch": torch.__version__,
        "CUDA of torch": torch.version.cuda or "none: a CPU build",
        "PyAV": av.__version__,
        "FFmpeg in PyAV": str(av.ffmpeg_version_info),
    }


def _look_at_installation(found: Diagnosis) -> None:
    owners = set(packages_distributions().get("videodataset", []))
    others = sorted(owners - {"videodataset-nvdec"})
    if others:
        found.problems.append(
            Problem(
                f"another package installs files under the import name videodataset: {', '.join(others)}",
                f"pip uninstall {' '.join(others)} && pip install --force-reinstall videodataset-nvdec",
            )
        )


def _native_core(found: Diagnosis) -> Any | None:
    try:
        from videodataset import _core
    except ImportError as error:
        folder = Path(__file__).parent
        found.problems.append(
            Problem(
                f"the native core is not installed beside {folder} ({error})",
                "pip install videodataset-nvdec, or from a checkout with a C++ compiler: pip install .",
            )
        )
        return None
    return _core


def _look_at_driver(found: Diagnosis) -> None:
    problem = found.driver["problem"]
    capabilities = found.container_capabilities
    if not problem:
        if not found.driver["devices"]:
            found.problems.append(Problem("the driver sees no GPU", "nvidia-smi; check CUDA_VISIBLE_DEVICES"))
        return
    if not found.driver["cuda_library"]:
        remedy = "install NVIDIA's driver; in a container run it with --gpus all"
    elif not found.driver["cuvid_library"]:
        remedy = f"docker run --gpus all -e {_CAPABILITIES}=compute,video,utility ..."
        if capabilities is None or "video" in capabilities or capabilities == "all":
            remedy += "; outside a container: apt-get install libnvidia-decode-<driver version>"
    else:
        remedy = "nvidia-smi; install a newer driver"
    found.problems.append(Problem(problem, remedy))


def _look_at_torch(found: Diagnosis) -> None:
    import torch

    if found.driver["problem"] or torch.cuda.is_available():
        return
    if torch.version.cuda is None:
        found.problems.append(
            Problem("torch is a CPU build", "pip install torch (see https://pytorch.org/get-started/locally)")
        )
    else:
        found.problems.append(
            Problem(
                f"torch {torch.__version__}, for CUDA {torch.version.cuda}, finds no usable GPU; the driver is for "
                f"CUDA {_dotted(found.driver['cuda_version'])}",
                "python -c 'import torch; torch.cuda.init()' says why",
            )
        )


def _look_at_decoders(found: Diagnosis, core: Any) -> None:
    try:
        engine = core.Engine(0, 1)
    except core.CoreError as error:
        found.problems.append(Problem(f"GPU 0 cannot be used: {error.args[1]}", "nvidia-smi"))
        return
    try:
        found.decoders = list(_decoders(engine.caps))
    except core.CoreError as error:
        found.problems.append(Problem(f"the driver does not tell what it decodes: {error.args[1]}", "nvidia-smi"))
    finally:
        engine.close()
    if not found.decoders:
        found.problems.append(Problem("this GPU decodes no video (some data centre GPUs have no NVDEC)", "use the CPU"))


def _decoders(caps: Callable[[int, int, int], dict[str, int] | None]) -> Iterator[DecoderCaps]:
    for codec, number in _CODECS.items():
        for chroma, chroma_number in _CHROMAS.items():
            for depth in (8, 10, 12):
                limits = caps(number, chroma_number, depth)
                if limits:
                    sizes = {key: limits[key] for key in ("min_width", "min_height", "max_width", "max_height")}
                    yield DecoderCaps(codec, chroma, depth, limits["engines"], **sizes)


def _dotted(cuda_version: int) -> str:
    return f"{cuda_version // 1000}.{cuda_version % 1000 // 10}" if cuda_version else "unknown"
