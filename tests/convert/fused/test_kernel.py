"""The kernel against the definition: compiled for the CPU everywhere, and as it is on a GPU."""

from __future__ import annotations

import ctypes
import shutil
import subprocess
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

import torchvision_functional
from conftest import require_cuda
from convert.pictures import BT601, BT709, BT2020, FULL, LIMITED, ORIENTATIONS, UNTAGGED, plane_shapes
from reference import LAYOUTS, formula
from videodataset.convert import Transform, color_description, fused
from videodataset.convert.device import SampleLayout
from videodataset.convert.fused.launch import _THREADS, _TILE_HEIGHT, _TILE_WIDTH
from videodataset.decode.surface import MONOCHROME, YUV420, YUV444, SurfaceFormat, planes_of
from videodataset.index.model import Orientation

KERNEL = Path(fused.__file__).parent / "kernel.cu"
GUARD = 64  # bytes around every picture that must stay as they are


@cache
def emulation() -> ctypes.CDLL:
    compiler = shutil.which("g++")
    if compiler is None:
        pytest.skip("no C++ compiler")
    built = Path(__file__).parent / "__pycache__" / f"emulation_{KERNEL.stat().st_mtime_ns}.so"
    if not built.exists():
        built.parent.mkdir(exist_ok=True)
        partial = built.with_suffix(f".{id(built)}")
        flags = ["-O2", "-std=c++17", "-shared", "-fPIC", "-Wno-unknown-pragmas", f'-DKERNEL="{KERNEL}"']
        header = Path(__file__).parent / "emulation.h"
        subprocess.run([compiler, *flags, "-x", "c++", str(header), "-o", str(partial)], check=True)
        partial.rename(built)
    return ctypes.CDLL(str(built))


def emulate(records: np.ndarray) -> None:
    tiles = -(-records["out_height"] // _TILE_HEIGHT) * -(-records["out_width"] // _TILE_WIDTH)
    table = records.ctypes.data_as(ctypes.c_void_p)
    emulation().emulate(table, len(records), int(tiles.max()), _THREADS)


@dataclass
class Runner:
    device: str
    convert: Callable[[np.ndarray], None]


@pytest.fixture(params=["emulated", "cuda"])
def runner(request: pytest.FixtureRequest) -> Runner:
    if request.param == "emulated":
        return Runner("cpu", emulate)
    require_cuda()
    return Runner("cuda", fused.FusedConvert(0).convert)


def weights(source: int, size: int, interpolation: str) -> torch.Tensor:
    """Antialiased interpolation along one axis as a matrix, float64 (size, source).

    As Pillow's resize and torch's have it; written down here because torch's gives wrong pixels for pictures one pixel
    wide (2.13), and test_torchvision compares with torch's.
    """
    scale = source / size
    stretch = max(scale, 1.0)
    centers = scale * (np.arange(size)[:, None] + 0.5)
    at = np.abs((np.arange(source)[None] + 0.5 - centers) / stretch)
    if interpolation == "bilinear":
        matrix = np.maximum(1 - at, 0)
    else:
        near, far = 1.5 * at**3 - 2.5 * at**2 + 1, -0.5 * at**3 + 2.5 * at**2 - 4 * at + 2
        matrix = np.where(at < 1, near, np.where(at < 2, far, 0))
    return torch.from_numpy(matrix / matrix.sum(1, keepdims=True))


@dataclass
class Case:
    """A picture of random samples, and what is made of it."""

    pix_fmt: str = "yuv420p"
    size: tuple[int, int] = (48, 64)  # (height, width)
    matrix: int = UNTAGGED
    color_range: int = LIMITED
    orientation: Orientation = field(default_factory=Orientation)
    transform: Transform = field(default_factory=Transform)
    in_surface: bool = True  # as NVDEC gives it, else as FFmpeg does
    seed: int = 0

    def samples(self) -> list[np.ndarray]:
        rng = np.random.default_rng(self.seed)
        depth = LAYOUTS[self.pix_fmt][2]
        dtype = np.uint8 if depth == 8 else np.uint16
        shapes = plane_shapes(self.pix_fmt, self.size[1], self.size[0])
        return [rng.integers(0, 2**depth, shape).astype(dtype) for shape in shapes]

    def expected(self) -> torch.Tensor:
        """The result as float64 (3, h, w), before the type's own rounding."""
        shown = torch.from_numpy(formula(self.samples(), self.pix_fmt, self.matrix, self.color_range)).round()
        pictures = shown.permute(2, 0, 1)[None]
        if self.orientation.transpose:
            pictures = pictures.transpose(2, 3)
        axes = [axis for axis, on in ((3, self.orientation.flip_x), (2, self.orientation.flip_y)) if on]
        pictures = pictures.flip(axes)
        transform = self.transform
        if transform.crop is not None:
            top, left, height, width = transform.crop
            pictures = pictures[:, :, top : top + height, left : left + width]
        placement = transform.placement(*pictures.shape[2:])
        if placement.resized != tuple(pictures.shape[2:]):
            rows, columns = (
                weights(source, size, transform.interpolation)
                for source, size in zip(pictures.shape[2:], placement.resized, strict=True)
            )
            pictures = rows @ pictures @ columns.T
            pictures = pictures.round().clamp(0, 255)
        fill = torch.tensor(transform.fill if isinstance(transform.fill, tuple) else (transform.fill,) * 3).double()
        (height, width), (rows, columns) = placement.output, placement.resized
        out = fill[:, None, None].repeat(1, height, width)
        for y in range(height):
            for x in range(width):
                inner = (y - placement.top, x - placement.left)
                if 0 <= inner[0] < rows and 0 <= inner[1] < columns:
                    out[:, y, x] = pictures[0, :, inner[0], inner[1]]
        out = out.flip(2) if transform.flip else out
        if transform.dtype == torch.uint8:
            return out
        mean, std = (torch.tensor(each or default).double() for each, default in
                     ((transform.mean, (0.0,) * 3), (transform.std, (1.0,) * 3)))  # fmt: skip
        return (out / 255 - mean[:, None, None]) / std[:, None, None]


def planes_on(case: Case, device: str) -> tuple[list[torch.Tensor], SampleLayout]:
    """The samples in memory, with a guard before and behind."""
    samples, depth = case.samples(), LAYOUTS[case.pix_fmt][2]
    chroma = {"420": YUV420, "444": YUV444, "gra": MONOCHROME}.get(
        case.pix_fmt[:3] if case.pix_fmt.startswith("gray") else case.pix_fmt.removeprefix("yuv")[:3]
    )
    if case.in_surface and chroma is not None:
        surface = SurfaceFormat(case.size[1], case.size[0], chroma, depth)
        memory = torch.zeros((1, surface.size_bytes), dtype=torch.uint8, device=device)
        planes = planes_of(memory, surface)
        shift = 16 - depth if depth > 8 else 0
        for plane, each in zip(planes, samples, strict=True):
            values = (each.astype(np.uint16) << shift).view(np.int16) if depth > 8 else each
            plane[0].copy_(torch.from_numpy(values))
        return planes, SampleLayout(depth, in_high_bits=True)
    planes = [torch.from_numpy(each if depth == 8 else each.view(np.int16))[None].to(device) for each in samples]
    return planes, SampleLayout(depth, in_high_bits=False)


def convert(runner: Runner, cases: Sequence[Case]) -> list[torch.Tensor]:
    """The results (3, h, w), all of one launch."""
    records, kept, outs = np.zeros(len(cases), fused.PICTURE), [], []
    for k, case in enumerate(cases):
        planes, layout = planes_on(case, runner.device)
        color = color_description(case.matrix, case.color_range, case.pix_fmt, "test")
        records[k] = fused.picture_template(planes, layout, color, case.orientation, case.transform)
        shown = case.size[::-1] if case.orientation.transpose else case.size
        height, width = case.transform.output_size(*shown)
        channels_last = case.transform.dimension_order == "NHWC"
        shape = (height, width, 3) if channels_last else (3, height, width)
        size_bytes = 3 * height * width * case.transform.dtype.itemsize
        memory = torch.full((size_bytes + 2 * GUARD,), 0x5A, dtype=torch.uint8, device=runner.device)
        out = memory[GUARD : GUARD + size_bytes].view(case.transform.dtype).view(shape)
        out = out.permute(2, 0, 1) if channels_last else out
        records[k]["out"] = out.data_ptr()
        records[k]["out_channel"], records[k]["out_row"], records[k]["out_column"] = out.stride()
        kept.append((planes, memory))
        outs.append(out)
    runner.convert(records)
    for _, memory in kept:
        assert (memory[:GUARD] == 0x5A).all(), "written in front of the result"
        assert (memory[-GUARD:] == 0x5A).all(), "written behind the result"
    return [out.cpu() for out in outs]


def assert_right(case: Case, got: torch.Tensor, within: float = 1) -> None:
    want = case.expected()
    if case.transform.dtype == torch.uint8:
        assert (got.double() - want).abs().max() <= within
        return
    scale = 255 * torch.tensor(case.transform.std or (1.0,) * 3).double()[:, None, None]
    epsilon = torch.finfo(case.transform.dtype).eps * want.abs().clamp_min(1) * scale  # of the type, in codes
    assert ((got.double() - want).abs() * scale <= within + epsilon).all()


FORMATS = ["yuv420p", "yuv422p", "yuv444p", "gray", "yuv420p10le", "yuv422p10le", "yuv444p10le", "yuv420p12le"]


@pytest.mark.parametrize("in_surface", [True, False])
@pytest.mark.parametrize("pix_fmt", FORMATS)
def test_formats(runner: Runner, pix_fmt: str, in_surface: bool) -> None:
    """Without resizing: every matrix and range, odd sizes, all equal to the formula but for ties."""
    cases = [
        Case(pix_fmt, size, matrix, color_range, in_surface=in_surface, seed=seed)
        for seed, (size, matrix, color_range) in enumerate(
            (size, matrix, color_range) for size in ((16, 40), (15, 33), (1, 1), (2, 3))
             for matrix in (UNTAGGED, BT601, BT709, BT2020) for color_range in (LIMITED, FULL)
        )
    ]  # fmt: skip
    unequal = total = 0
    for case, got in zip(cases, convert(runner, cases), strict=True):
        assert_right(case, got)
        unequal += int((got.double() != case.expected()).sum())
        total += got.numel()
    assert unequal < total / 1000


@pytest.mark.parametrize("size", [None, (13, 21)])
@pytest.mark.parametrize("pix_fmt", ["yuv420p", "yuv422p", "yuv444p10le"])
def test_orientations_and_crops(runner: Runner, pix_fmt: str, size: Any) -> None:
    crops = [None, (3, 5, 17, 11), (0, 0, 1, 1), (20, 7, 7, 13)]
    transforms = [Transform(size=size, crop=crop) for crop in crops]
    cases = [
        Case(pix_fmt, (29, 37), BT709, orientation=orientation, transform=transform)
        for orientation in ORIENTATIONS
        for transform in transforms
    ]
    for case, got in zip(cases, convert(runner, cases), strict=True):
        assert_right(case, got)


SIZES = [(24, 32), (96, 128), (7, 100), (100, 7), (1, 1), (48, 64), (47, 65)]


@pytest.mark.parametrize("interpolation", ["bilinear", "bicubic"])
@pytest.mark.parametrize("resize", ["stretch", "shorter", "letterbox"])
def test_resized(runner: Runner, resize: Any, interpolation: Any) -> None:
    cases = [
        Case(size=size, transform=Transform(size=to, resize=resize, interpolation=interpolation, fill=(1, 128, 254)))
        for size in ((48, 64), (37, 53))
        for to in [*SIZES, *([20] if resize == "shorter" else [])]
    ]
    for case, got in zip(cases, convert(runner, cases), strict=True):
        assert_right(case, got)


@pytest.mark.parametrize("order", ["NCHW", "NHWC"])
@pytest.mark.parametrize("dtype", [torch.uint8, torch.float16, torch.bfloat16, torch.float32])
def test_types_layouts_flips(runner: Runner, dtype: torch.dtype, order: Any) -> None:
    channels: dict[str, Any] = {}
    if dtype.is_floating_point:
        channels = {"mean": (0.485, 0.456, 0.406), "std": (0.229, 0.224, 0.225)}
    cases = [
        Case(transform=Transform(size=size, dtype=dtype, dimension_order=order, flip=flip, **each))
        for size in (None, (20, 31))
        for flip in (False, True)
        for each in ({}, channels)
    ]
    for case, got in zip(cases, convert(runner, cases), strict=True):
        assert_right(case, got)


def test_black_and_white_are_exactly_0_and_1(runner: Runner) -> None:
    case = Case(transform=Transform(size=(20, 20), dtype=torch.float32))
    planes = [torch.full_like(plane, 128) for plane in planes_on(case, runner.device)[0]]
    for luma, want in ((16, 0.0), (235, 1.0)):
        planes[0].fill_(luma)
        layout, color = SampleLayout(8, False), color_description(UNTAGGED, LIMITED, "yuv420p", "test")
        record = fused.picture_template(planes, layout, color, case.orientation, case.transform)[None].copy()
        out = torch.full((3, 20, 20), 7.0, device=runner.device)
        record["out"], record["out_channel"], record["out_row"], record["out_column"] = out.data_ptr(), 400, 20, 1
        runner.convert(record)
        assert (out == want).all()


@pytest.mark.parametrize("source", [(480, 640), (1080, 1920), (90, 160), (224, 224)])
def test_torchvision(runner: Runner, source: tuple[int, int]) -> None:
    """Within 1 of its results for uint8, bilinear, and of its results for float32, bicubic."""
    functional = torchvision_functional.load()
    if functional is None:
        pytest.skip("torchvision cannot be imported")
    if runner.device == "cpu" and source == (1080, 1920):
        source = (540, 960)  # emulated, the whole picture takes minutes
    size = (56, 56)
    plain = Case(size=source, seed=5)
    want: torch.Tensor = plain.expected()
    for interpolation in ("bilinear", "bicubic"):
        case = replace(plain, transform=Transform(size=size, interpolation=interpolation))
        (got,) = convert(runner, [case])
        full = want.to(torch.uint8) if interpolation == "bilinear" else want.float()
        mode = functional.InterpolationMode(interpolation)
        theirs = functional.resize(full, list(size), interpolation=mode, antialias=True).float().clamp(0, 255)
        assert (got.float() - theirs.round()).abs().max() <= 1


def test_far_up_and_far_down(runner: Runner) -> None:
    cases = [
        Case(size=(3, 700), transform=Transform(size=(300, 2))),
        Case(size=(700, 3), transform=Transform(size=(2, 300), interpolation="bicubic")),
        Case(size=(1, 1), transform=Transform(size=(40, 50))),
    ]
    for case, got in zip(cases, convert(runner, cases), strict=True):
        assert_right(case, got)


@settings(max_examples=60, deadline=None)
@given(st.data())
def test_anything_in_one_launch(data: st.DataObject) -> None:
    """Pictures of every kind beside one another; emulated."""
    sides = st.integers(1, 40)

    def case(seed: int) -> Case:
        size = data.draw(st.tuples(sides, sides))
        orientation = data.draw(st.sampled_from(ORIENTATIONS))
        shown = size[::-1] if orientation.transpose else size
        top, left = data.draw(st.integers(0, shown[0] - 1)), data.draw(st.integers(0, shown[1] - 1))
        box = (top, left, data.draw(st.integers(1, shown[0] - top)), data.draw(st.integers(1, shown[1] - left)))
        transform = Transform(
            size=data.draw(st.none() | st.tuples(sides, sides)),
            crop=data.draw(st.none() | st.just(box)),
            interpolation=data.draw(st.sampled_from(["bilinear", "bicubic"])),
            flip=data.draw(st.booleans()),
            dtype=data.draw(st.sampled_from([torch.uint8, torch.bfloat16, torch.float32])),
            dimension_order=data.draw(st.sampled_from(["NCHW", "NHWC"])),
        )
        pix_fmt, matrix = data.draw(st.sampled_from(FORMATS)), data.draw(st.sampled_from([BT601, BT709]))
        return Case(pix_fmt, size, matrix, data.draw(st.sampled_from([LIMITED, FULL])), orientation, transform,
                    data.draw(st.booleans()), seed)  # fmt: skip

    cases = [case(seed) for seed in range(data.draw(st.integers(1, 3)))]
    for each, got in zip(cases, convert(Runner("cpu", emulate), cases), strict=True):
        assert_right(each, got)


def test_the_table_is_the_kernels_struct() -> None:
    library = emulation()
    names = list(fused.PICTURE.names or ())
    offsets = (ctypes.c_ulong * len(names)).in_dll(library, "offsets")
    theirs = (ctypes.c_char_p * (len(names) + 1)).in_dll(library, "names")
    assert [each.decode() for each in theirs if each] == names
    assert list(offsets) == [fused.PICTURE.fields[name][1] for name in names]  # type: ignore[index]
