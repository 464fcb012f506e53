"""What only the NVDEC engine has to stand: streams, events, reconfigured decoders, other users of the GPU."""

from __future__ import annotations

import gc
import itertools
import os
import random
import shutil
import subprocess
import sys
import textwrap
import threading
import time
from collections.abc import Iterator
from concurrent.futures import CancelledError
from pathlib import Path
from typing import Any

import pytest
import torch
from test_engine import opened, shown_planes, slots_of

import videodataset as vd
from clips import ClipStore
from conftest import require_cuda
from engines import NvdecHarness, same_planes
from reference import Reference, assert_picture
from videodataset.decode.nvdec import device_slots, surface_format

pytestmark = pytest.mark.timeout(280)
LONG_S = 0.05  # that a kernel spins, and a decode does not take
EVERYTHING = ["h264", "h264_15b", "hevc", "hevc_10bit", "hevc_444", "vp8", "vp9", "h264_cropped", "hevc_pyramid"]


@pytest.fixture(params=["nvdec"])
def harness(request: pytest.FixtureRequest) -> NvdecHarness:
    require_cuda()
    return NvdecHarness()


def spin(seconds: float) -> None:
    torch.cuda._sleep(int(seconds * 1.7e9))


class Checker:
    """Decodes frames of clips and compares the planes."""

    def __init__(self, harness: NvdecHarness, clip: ClipStore) -> None:
        self._harness, self._clip = harness, clip
        self._known: dict[str, Any] = {}

    def frame(self, name: str, number: int) -> bool:
        if name not in self._known:
            self._known[name] = (*opened(self._clip(name)), shown_planes(self._clip(name)))
        storage, index, want = self._known[name]
        runs = self._harness.runs(storage, index, [int(index.presentation[number % len(index)])])
        if self._harness.engine.submit(runs).wait(60) != [{}]:
            return False
        (slot,) = slots_of(runs).values()
        return same_planes(self._harness.planes(slot), want[number % len(index)])


@pytest.mark.parametrize(
    "names",
    [
        ("h264_cropped", "h264_cropped_less"),
        ("h264_cropped_less", "h264_cropped"),
        ("h264_intra", "h264_16_refs"),
        ("h264_16_refs", "h264_intra"),
        ("hevc_no_b", "hevc_cropped"),
    ],
    ids="-".join,
)
def test_two_kinds_in_turns(harness: NvdecHarness, clip: ClipStore, names: tuple[str, str]) -> None:
    """Shown sizes with one coded size; more surfaces after fewer, and fewer after more; in fresh decoders."""
    vd.close_engines()
    harness = NvdecHarness()
    checker = Checker(harness, clip)
    for turn in range(60):
        assert checker.frame(names[turn % 2], 7 * turn), (names[turn % 2], 7 * turn)


def test_threads_and_formats(harness: NvdecHarness, clip: ClipStore) -> None:
    """Eight threads, every codec, depth, chroma format and size at random."""
    wrong: list[Any] = []

    def work(seed: int) -> None:
        rng, checker = random.Random(seed), Checker(harness, clip)
        for _ in range(40):
            name, number = rng.choice(EVERYTHING), rng.randrange(24)
            if not checker.frame(name, number):
                wrong.append((name, number))

    threads = [threading.Thread(target=work, args=(seed,)) for seed in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert wrong == []


def test_slots_that_a_queued_kernel_still_uses(harness: NvdecHarness, clip: ClipStore) -> None:
    """On a side stream, a hundred times: a kernel fills the slot late, the picture has to come behind that.

    And a copy out of it queued right after waiting has to be that of the picture.
    """
    storage, index = opened(clip("h264_15b"))
    want = shown_planes(clip("h264_15b"))
    surface = surface_format(index.info)
    assert surface is not None
    side = torch.cuda.Stream()
    with torch.cuda.stream(side):
        for turn in range(100):
            memory = torch.zeros((1, surface.size_bytes), dtype=torch.uint8, device="cuda")
            frame = 5 * turn % len(index)
            (run,) = harness.runs(storage, index, [int(index.presentation[frame])])
            (slot,) = device_slots(memory, surface)
            spin(LONG_S / 10)
            memory.fill_(0x11)
            queued = type(run)(run.storage, run.index, run.run, dict.fromkeys(run.slots, slot))
            assert harness.engine.submit([queued]).wait() == [{}]
            copy = memory.clone()
            memory.fill_(0x22)
            side.synchronize()
            (got,) = device_slots(copy, surface)
            assert same_planes(harness.planes(got), want[frame]), f"turn {turn}"


def test_frames_on_a_side_stream(harness: NvdecHarness, clip: ClipStore, reference: Reference) -> None:
    """Begun on one stream and taken on another, both busy."""
    path = str(clip("h264_15b"))
    other, side = torch.cuda.Stream(), torch.cuda.Stream()
    for turn in range(30):
        frames = [(turn + 3 * k) % 48 for k in range(4)]
        with torch.cuda.stream(other):
            spin(LONG_S / 10)
            pending = vd.PendingFrames([vd.FrameRef(path, frame) for frame in frames]).start("cuda")
        with torch.cuda.stream(side):
            spin(LONG_S / 20)
            data = pending.wait()
            copy = data.clone()
        side.synchronize()
        for got, frame in zip(copy, frames, strict=True):
            assert_picture(got, reference("h264_15b")[frame])


def test_memory_let_go_of_while_copies_fly(harness: NvdecHarness, clip: ClipStore) -> None:
    """Whoever drops a submission, cancelled or not: memory that is handed out again stays as its new owner left it."""
    storage, index = opened(clip("h264_one_gop"))
    surface = surface_format(index.info)
    assert surface is not None
    rng = random.Random(0)
    for turn in range(100):
        runs = harness.runs(storage, index, range(turn % 5, 40, 3))
        ticket = harness.engine.submit(runs)
        time.sleep(rng.choice([0, 0, 0.001, 0.004]))
        if turn % 3 == 0:
            ticket.cancel()
        if turn % 3 == 1:
            ticket.cancel()
            ticket.wait(60)
        del runs, ticket
        new = [torch.full((1, surface.size_bytes), 0x3C, dtype=torch.uint8, device="cuda") for _ in range(14)]
        time.sleep(0.002)
        assert all(bool((each == 0x3C).all()) for each in new), f"turn {turn}"
        del new
    assert Checker(harness, clip).frame("h264", 3)


def test_cancelled_at_any_stage(harness: NvdecHarness, clip: ClipStore) -> None:
    storage, index = opened(clip("h264_one_gop"))
    want = shown_planes(clip("h264_one_gop"))
    rng, ended = random.Random(1), {True: 0, False: 0}
    for _ in range(60):
        runs = [run for k in range(8) for run in harness.runs(storage, index, [39 - k, 20])]
        ticket = harness.engine.submit(runs)
        time.sleep(rng.uniform(0, 0.012))
        ticket.cancel()
        for run, errors in zip(runs, ticket.wait(60), strict=True):
            assert all(isinstance(error, CancelledError) for error in errors.values())
            for picture, slot in run.slots.items():
                ended[picture in errors] += 1
                if picture not in errors:
                    frame = index.presentation.tolist().index(picture)
                    assert same_planes(harness.planes(slot), want[frame])
    assert ended[True], "nothing was ever cut off"
    assert Checker(harness, clip).frame("h264", 3)


class Background:
    """Decodes all the while in a thread, and keeps what was wrong."""

    def __init__(self, harness: NvdecHarness, clip: ClipStore) -> None:
        self._stop, self.frames, self.wrong = threading.Event(), 0, list[Any]()
        self._checker = Checker(harness, clip)
        assert all(self._checker.frame(name, 1) for name in EVERYTHING), "decoders are made before"
        self._thread = threading.Thread(target=self._work)

    def _work(self) -> None:
        rng = random.Random(0)
        try:
            while not self._stop.is_set():
                name, number = rng.choice(EVERYTHING), rng.randrange(24)
                self.frames += 1
                if not self._checker.frame(name, number):
                    self.wrong.append((name, number))
        except BaseException as error:
            self.wrong.append(error)

    def __enter__(self) -> Background:
        self._thread.start()
        return self

    def __exit__(self, *_: Any) -> None:
        self._stop.set()
        self._thread.join()
        assert self.wrong == []


def test_graph_capture_while_the_engine_decodes(harness: NvdecHarness, clip: ClipStore) -> None:
    """Batches on their way while a CUDA graph is captured: the engine's threads neither break it nor are in it."""
    refs = [vd.FrameRef(str(clip(name)), frame) for name in EVERYTHING for frame in range(0, 24, 2)]
    want = [each.clone() for each in vd.decode(refs, device="cuda")]
    static = torch.zeros(64, 64, device="cuda")
    static @ static  # what a first call sets up may not be captured
    torch.cuda.synchronize()
    for turn in range(20):
        pending = [vd.PendingFrames(refs).start("cuda") for _ in range(3)]
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph):
            for _ in range(50):
                out = static @ static + turn
        static.copy_(torch.eye(64, device="cuda"))
        graph.replay()
        assert torch.equal(out, torch.eye(64, device="cuda") + turn)
        for each in pending:
            got = each.wait()
            assert all(torch.equal(a, b) for a, b in zip(got, want, strict=True))


@pytest.mark.filterwarnings("ignore")  # the compiler's own
def test_compiled_with_graphs_while_the_engine_decodes(harness: NvdecHarness, clip: ClipStore) -> None:
    pytest.importorskip("triton")
    model = torch.nn.Sequential(torch.nn.Flatten(), torch.nn.Linear(3 * 24 * 32, 32), torch.nn.ReLU(),
                                torch.nn.Linear(32, 1)).cuda()  # fmt: skip
    compiled = torch.compile(model, mode="reduce-overhead")
    optimizer = torch.optim.SGD(model.parameters(), lr=1e-3)
    refs = [vd.FrameRef(str(clip("h264_15b")), frame, size=(24, 32)) for frame in range(16)]
    want = vd.decode(refs, device="cuda")
    for _ in range(12):
        pending = vd.PendingFrames(refs).start("cuda")
        loss = compiled(want.float() / 255).square().mean()
        loss.backward()
        optimizer.step()
        optimizer.zero_grad()
        assert torch.equal(pending.wait(), want)
    assert torch.isfinite(loss)


def test_a_hundred_decoders_in_turns(harness: NvdecHarness, clip: ClipStore, reference: Reference) -> None:
    names = [name for name in EVERYTHING if name != "h264_cropped"]
    decoders = [(name, vd.VideoDecoder(clip(name), device="cuda")) for name in itertools.islice(
        itertools.cycle(names), 100)]  # fmt: skip
    rng = random.Random(2)
    for name, decoder in rng.sample(decoders, 100):
        number = rng.randrange(24)
        assert_picture(decoder[number], reference(name)[number])
    assert harness.engine.statistics()["sessions"] <= 14


AT_EXIT = {
    "a decoder": "decoder = vd.VideoDecoder(path, device='cuda'); decoder[3]",
    "a decoder in a cycle": """
class A: pass
a = A(); a.a = a; a.decoder = vd.VideoDecoder(path, device='cuda'); a.frame = a.decoder[1]
""",
    "frames on their way": """
pending = [vd.PendingFrames([vd.FrameRef(path, k % 40)] * 4).start('cuda') for k in range(60)]
""",
    "a loader half-way": """
class Data(torch.utils.data.Dataset, vd.BaseVideoDataset):
    def __len__(self): return 400
    def __getitem__(self, i): return {"image": self.frames(path, i % 40), "clip": self.frames(path, [i % 40, 3])}
batches = iter(vd.DataLoader(Data(), batch_size=8, device="cuda"))
for _ in range(5): batch = next(batches)
""",
    "a thread that decodes": """
def work():
    try:
        while True: vd.decode([vd.FrameRef(path, k) for k in range(9)], device='cuda')
    except vd.VideoDatasetError:
        pass
threading.Thread(target=work, daemon=True).start()
time.sleep(1)
""",
}


@pytest.mark.parametrize("left", AT_EXIT, ids=lambda left: f"cuda-{left}")
def test_what_lives_at_exit_ends_quietly(clip: ClipStore, left: str) -> None:
    require_cuda()
    ended = run_script(f"path = {str(clip('h264_one_gop'))!r}\n{AT_EXIT[left]}")
    assert (ended.returncode, ended.stderr) == (0, "")


def run_script(text: str, **variables: str) -> subprocess.CompletedProcess[str]:
    header = "import sys, os, threading, time, torch\nimport videodataset as vd\n"
    # Python 3.12 warns of every fork of a process with threads; some scripts do that on purpose.
    command = [sys.executable, "-W", "ignore::DeprecationWarning", "-c", header + textwrap.dedent(text)]
    return subprocess.run(command, env=os.environ | variables, capture_output=True, text=True, timeout=120, check=False)


def test_cuda_in_a_forked_child_is_refused(clip: ClipStore) -> None:
    require_cuda()
    ended = run_script(f"""
        path = {str(clip("h264"))!r}
        decoder = vd.VideoDecoder(path, device="cuda")
        first = decoder[3].cpu()
        for attempt in (lambda: decoder[4], lambda: vd.VideoDecoder(path, device="cuda")[1],
                        lambda: vd.decode(vd.FrameRef(path, 1), device="cuda")):
            if (pid := os.fork()) == 0:
                try:
                    attempt()
                except vd.ForkedCudaError as error:
                    os._exit(0 if "FrameRef" in str(error) and "spawn" in str(error) else 2)
                except BaseException as error:
                    print(repr(error), file=sys.stderr)
                os._exit(1)
            assert os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == 0
        if (pid := os.fork()) == 0:  # the CPU serves there
            os._exit(int(vd.VideoDecoder(path, device="cpu")[3].shape != first.shape))
        assert os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == 0
        assert torch.equal(decoder[3].cpu(), first)
    """)
    assert (ended.returncode, ended.stderr) == (0, "")


@pytest.mark.parametrize("missing", ["cuda-driver", "cuda-video-library"])
def test_without_the_drivers_libraries(clip: ClipStore, missing: str) -> None:
    """Refused by name, and the CPU goes on; without the driver, on machines without a GPU too."""
    if missing == "cuda-video-library":
        require_cuda()
    variable = {"cuda-driver": "VIDEODATASET_LIBCUDA", "cuda-video-library": "VIDEODATASET_LIBNVCUVID"}[missing]
    ended = run_script(
        f"""
        path = {str(clip("h264"))!r}
        try:
            vd.VideoDecoder(path, device="cuda")[0]
        except vd.NvdecUnavailableError as error:
            print(error)
        assert vd.VideoDecoder(path, device="cpu")[0].ndim == 3
        """,
        **{variable: "/nowhere/lib.so"},
    )
    assert ended.returncode == 0, ended.stderr
    assert "/nowhere/lib.so" in ended.stdout


def test_a_wrong_device_number_is_refused(clip: ClipStore) -> None:
    require_cuda()
    number = torch.cuda.device_count()
    with pytest.raises(vd.NvdecUnavailableError, match=f"cuda:{number}"):
        vd.VideoDecoder(clip("h264"), device=f"cuda:{number}")[0]


def test_sizes_beyond_the_gpus_limits_are_told(harness: NvdecHarness, clip: ClipStore) -> None:
    info = opened(clip("hevc"))[1].info
    small, large = (type(info)(**{**{name: getattr(info, name) for name in info.__dataclass_fields__},
                                  "width": side, "height": side}) for side in (64, 20000))  # fmt: skip
    assert "64x64 is smaller than this GPU takes" in str(harness.engine.why_not(small))
    assert "20000x20000 is larger than this GPU takes" in str(harness.engine.why_not(large))
    decoder = vd.VideoDecoder(clip("h264_444"), device="cuda")
    assert decoder[3].device.type == "cuda"
    assert "h264 yuv444p is not decoded by this GPU" in str(decoder.cpu_fallback)


@pytest.mark.alone
def test_gpu_memory_exhausted(harness: NvdecHarness, clip: ClipStore, reference: Reference) -> None:
    """That call fails, and the engine goes on when there is memory again."""
    path = str(clip("h264_15b"))
    torch.cuda.empty_cache()
    free, _ = torch.cuda.mem_get_info()
    taken = torch.empty(free - 300 * 2**20, dtype=torch.uint8, device="cuda")
    try:
        refs = [vd.FrameRef(path, k % 48, size=(1024, 1024)) for k in range(400)]
        with pytest.raises((vd.NvdecUnavailableError, torch.cuda.OutOfMemoryError)) as caught:
            vd.decode(refs, device="cuda")
        assert "memory" in str(caught.value)
        assert_picture(vd.decode(vd.FrameRef(path, 5), device="cuda"), reference("h264_15b")[5])
    finally:
        del taken
        torch.cuda.empty_cache()
    assert_picture(vd.decode(vd.FrameRef(path, 9), device="cuda"), reference("h264_15b")[9])


@pytest.fixture
def many(clip: ClipStore, tmp_path: Path) -> Iterator[list[str]]:
    """Copies of clips of five sizes."""
    names = ["h264", "h264_cropped", "h264_wide", "hevc_cropped", "vp9_odd"]
    paths = []
    for k in range(int(os.environ.get("VIDEODATASET_SOAK_FILES", "50"))):
        source = clip(names[k % len(names)])
        paths.append(str(tmp_path / f"{k}{source.suffix}"))
        shutil.copy(source, paths[-1])
    yield paths
    for path in paths:
        Path(path).unlink()


def usage() -> dict[str, float]:
    gc.collect()
    torch.cuda.synchronize()
    free, total = torch.cuda.mem_get_info()
    status = Path("/proc/self/status").read_text().splitlines()
    resident = next(int(line.split()[1]) for line in status if line.startswith("VmRSS"))
    return {
        "gpu_mib": (total - free) / 2**20,
        "host_mib": resident / 2**10,
        "handles": len(os.listdir("/proc/self/fd")),
        "threads": len(os.listdir("/proc/self/task")),
    }


@pytest.mark.alone
def test_nothing_grows(harness: NvdecHarness, many: list[str]) -> None:
    """VIDEODATASET_SOAK_FRAMES and VIDEODATASET_SOAK_FILES make it a long one."""
    vd.close_engines()  # decoders of other tests
    harness = NvdecHarness()
    frames = int(os.environ.get("VIDEODATASET_SOAK_FRAMES", "5000"))
    rng = random.Random(3)
    small = vd.Transform(size=(32, 32))

    def decode(refs: list[vd.FrameRef]) -> None:
        assert vd.decode(refs, device="cuda", transform=small).shape == (len(refs), 3, 32, 32)

    def decode_some(count: int) -> None:
        for _ in range(count // 50):
            decode([vd.FrameRef(rng.choice(many), rng.randrange(24)) for _ in range(50)])

    for kind in range(5):  # every session gets a decoder of every kind
        for _ in range(4):
            decode([vd.FrameRef(path, rng.randrange(24)) for path in many[kind:50:5] for _ in range(60)])
    decode([vd.FrameRef(path, 0) for path in many])  # their indexes
    decode_some(max(frames // 4, 2000))
    before = usage()
    decode_some(frames)
    after, statistics = usage(), harness.engine.statistics()
    print(before, after, statistics)
    assert after["gpu_mib"] <= before["gpu_mib"] + 64
    assert after["host_mib"] <= before["host_mib"] + 64
    assert after["handles"] <= before["handles"] + 2
    assert after["threads"] <= before["threads"]
    assert statistics["decoders_created"] <= 14 * 3, "of three formats: H.264, HEVC, VP9"
