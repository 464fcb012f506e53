"""The native core over the fake driver, under sanitizers; and what Python sees of it without a driver."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
TOOLS = Path(sys.executable).parent

needs_compiler = pytest.mark.skipif(
    not (shutil.which("g++") or shutil.which("clang++")), reason="no C++ compiler here: apt-get install g++"
)


def tool(name: str) -> str:
    """A program of this Python's environment, or of the machine."""
    found = shutil.which(name, path=f"{TOOLS}{os.pathsep}{os.environ['PATH']}")
    if found is None:
        pytest.skip(f"{name} is not installed")
    return found


def build(folder: Path, sanitize: str) -> None:
    options = {
        "VIDEODATASET_PYTHON": "OFF",
        "VIDEODATASET_TESTS": "ON",
        "VIDEODATASET_WERROR": "ON",
        "VIDEODATASET_SANITIZE": sanitize,
        "CMAKE_BUILD_TYPE": "RelWithDebInfo",
        "CMAKE_MAKE_PROGRAM": tool("ninja"),
    }
    arguments = [f"-D{name}={value}" for name, value in options.items()]
    run(tool("cmake"), "-S", str(ROOT), "-B", str(folder), "-G", "Ninja", *arguments)
    run(tool("cmake"), "--build", str(folder))


def run(*command: str) -> str:
    done = subprocess.run(command, check=False, capture_output=True, text=True, timeout=280)
    assert done.returncode == 0, f"{done.stdout[-3000:]}\n{done.stderr[-3000:]}"
    return done.stdout


@needs_compiler
@pytest.mark.parametrize("sanitize", ["address,undefined", "thread"])
def test_core_under_sanitizers(tmp_path: Path, sanitize: str) -> None:
    build(tmp_path, sanitize)
    run(tool("ctest"), "--test-dir", str(tmp_path), "--output-on-failure", "--timeout", "200")


def python(code: str, **environment: str) -> str:
    """Run code in a fresh process, which has opened no driver yet."""
    done = subprocess.run(
        [sys.executable, "-c", code],
        check=False,
        capture_output=True,
        text=True,
        timeout=120,
        env={**os.environ, **environment},
    )
    assert done.returncode == 0, done.stderr[-3000:]
    return done.stdout


INFO = "import json; from videodataset import _core; print(json.dumps(_core.driver_info()))"


def test_without_a_driver() -> None:
    pytest.importorskip("videodataset._core")
    info = json.loads(python(INFO, VIDEODATASET_LIBCUDA="/nowhere/libcuda.so"))
    assert "no NVIDIA driver" in info["problem"]
    assert info["devices"] == []
    asked = """
import videodataset as vd
for ask in (lambda: vd.decode(vd.FrameRef("a.mp4", 1), device="cuda"),):
    try:
        ask()
    except vd.NvdecUnavailableError as error:
        print(error)
from videodataset import _core
print("calls", _core.driver_calls())
"""
    said = python(asked, VIDEODATASET_LIBCUDA="/nowhere/libcuda.so", CUDA_VISIBLE_DEVICES="")
    assert "no NVIDIA driver" in said or "no usable CUDA device" in said
    assert "calls 0" in said


@needs_compiler
def test_an_incomplete_driver_is_told(tmp_path: Path) -> None:
    """A libcuda that is there, beside no video library; and a library that lacks what is needed."""
    pytest.importorskip("videodataset._core")
    source = tmp_path / "empty.cpp"
    source.write_text('extern "C" int cuInit(unsigned) { return 0; }\n')
    library = tmp_path / "libempty.so"
    run(shutil.which("g++") or "clang++", "-shared", "-fPIC", str(source), "-o", str(library))
    missing = {"VIDEODATASET_LIBCUDA": str(library), "VIDEODATASET_LIBNVCUVID": "/nowhere/libnvcuvid.so"}
    info = json.loads(python(INFO, **missing))
    assert "NVIDIA_DRIVER_CAPABILITIES" in info["problem"]
    old = {"VIDEODATASET_LIBCUDA": str(library), "VIDEODATASET_LIBNVCUVID": str(library)}
    info = json.loads(python(INFO, **old))
    assert "too old" in info["problem"]
    assert "cuvidCreateDecoder" in info["missing_symbols"]


def test_importing_opens_no_driver() -> None:
    said = python(
        "import sys, videodataset; print('videodataset._core' in sys.modules)", VIDEODATASET_LIBCUDA="/nowhere"
    )
    assert said.strip() == "False"


def test_doctor_says_what_is_missing() -> None:
    pytest.importorskip("videodataset._core")
    code = "import sys; sys.argv = ['videodataset', 'doctor', '--json']; from videodataset.cli import app; app()"
    done = subprocess.run(
        [sys.executable, "-c", code],
        check=False,
        capture_output=True,
        text=True,
        timeout=120,
        env={**os.environ, "VIDEODATASET_LIBCUDA": "/nowhere/libcuda.so"},
    )
    facts = json.loads(done.stdout)
    assert done.returncode == 1
    assert facts["gpu_decodes"] is False
    assert any("driver" in problem["what"] and problem["remedy"] for problem in facts["problems"])
