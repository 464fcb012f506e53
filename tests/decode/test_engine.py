"""What any decode engine must do: the contract in `videodataset.decode.engine`."""

from __future__ import annotations

import os
import random
import threading
import time
from concurrent.futures import CancelledError
from pathlib import Path
from typing import Any

import av
import pytest

import videodataset as vd
from clips import ClipStore
from clips.damage import damaged_packets
from conftest import require_cuda
from engines import CpuHarness, NvdecHarness, Planes, PlanesSlot, same_planes
from reference import planes_of
from videodataset.decode.cpu import CpuEngine
from videodataset.decode.engine import DecodeRun, Engine, FrameSlot
from videodataset.index import VideoIndex, load_or_build
from videodataset.plan import plan_runs
from videodataset.storage import Storage, open_storage


@pytest.fixture(params=["in the waiting thread", "two threads", "nvdec"])
def harness(request: pytest.FixtureRequest) -> CpuHarness:
    """Every engine; NVDEC is skipped where there is none, unless VIDEODATASET_REQUIRE_GPU=1."""
    if request.param == "nvdec":
        require_cuda()
        return NvdecHarness()
    return CpuHarness({"in the waiting thread": 0, "two threads": 2}[request.param])


@pytest.fixture(params=["in the waiting thread", "two threads"])
def engine(request: pytest.FixtureRequest) -> Engine[FrameSlot]:
    """The CPU engine, whose slots are the test's own code."""
    return CpuEngine({"in the waiting thread": 0, "two threads": 2}[request.param])


def opened(path: Path) -> tuple[Storage, VideoIndex]:
    storage = open_storage(path)
    return storage, load_or_build(storage)


def shown_planes(path: Path) -> list[Planes]:
    """Planes of every shown frame, from PyAV in order."""
    with av.open(str(path)) as container:
        container.streams.video[0].codec_context.options = {"strict": "1"}
        return [planes_of(frame) for frame in container.decode(video=0)]


def slots_of(runs: list[DecodeRun[FrameSlot]]) -> dict[int, Any]:
    return {picture: slot for run in runs for picture, slot in run.slots.items()}


NAMES = ["h264", "h264_open_gop", "h264_15b", "hevc_layers", "hevc_10bit", "hevc_444", "vp8_hidden", "vp9", "h264_ts"]


@pytest.mark.parametrize("name", NAMES)
def test_every_asked_picture_once_and_its_own_bit_for_bit(harness: CpuHarness, clip: ClipStore, name: str) -> None:
    storage, index = opened(clip(name))
    want = shown_planes(clip(name))
    rng = random.Random(name)
    for count in (1, 3, len(index)):
        frames = rng.sample(range(len(index)), count)
        runs = harness.runs(storage, index, [int(index.presentation[f]) for f in frames])
        assert harness.engine.submit(runs).wait() == [{} for _ in runs]
        slots = slots_of(runs)
        for frame in frames:
            slot = slots[int(index.presentation[frame])]
            assert harness.is_filled(slot)
            assert same_planes(harness.planes(slot), want[frame]), f"frame {frame}"


def test_runs_of_several_videos_at_once(harness: CpuHarness, clip: ClipStore) -> None:
    """Codecs, depths, chroma formats and sizes change from run to run."""
    names = ["h264", "hevc", "hevc_10bit", "vp8", "hevc_444", "h264_cropped", "h264_wide", "hevc_12bit", "vp9_odd"]
    work = {name: harness.runs(*opened(clip(name)), [0, 5, 13]) for name in names}
    mixed = [run for runs in work.values() for run in runs] * 1
    random.Random(0).shuffle(mixed)
    assert all(errors == {} for errors in harness.engine.submit(mixed).wait())
    for name in names:
        index = opened(clip(name))[1]
        want = shown_planes(clip(name))
        for picture, slot in slots_of(work[name]).items():
            frame = index.presentation.tolist().index(picture)
            assert same_planes(harness.planes(slot), want[frame]), f"{name}, frame {frame}"


def test_a_damaged_picture_fails_alone(harness: CpuHarness, clip: ClipStore) -> None:
    """Groups of two pictures each: only those with changed bytes, or after them in their group, may fail."""
    storage, index = opened(clip("flipped"))
    want = shown_planes(clip("h264_g2"))
    may_fail = {k // 2 * 2 + j for k in damaged_packets("flipped") for j in (0, 1)}
    runs = harness.runs(storage, index, range(len(index.flags)))
    results = harness.engine.submit(runs).wait()
    failed = {picture: error for errors in results for picture, error in errors.items()}
    assert failed
    assert failed.keys() <= may_fail
    assert all(isinstance(error, vd.DamagedVideoError) for error in failed.values())
    for picture, slot in slots_of(runs).items():
        if picture not in may_fail:
            assert same_planes(harness.planes(slot), want[picture])
    good = harness.runs(*opened(clip("h264")), [3])
    assert harness.engine.submit(good).wait() == [{}], "the engine goes on"


def test_a_source_that_is_gone_fails_its_runs_alone(harness: CpuHarness, clip: ClipStore, tmp_path: Path) -> None:
    copy = tmp_path / "gone.mp4"
    copy.write_bytes(clip("h264").read_bytes())
    gone, index = opened(copy)
    other = harness.runs(*opened(clip("hevc")), [1])
    copy.write_bytes(b"another file")
    lost = harness.runs(gone, index, [0, 20])
    *errors, last = harness.engine.submit(lost + other).wait()
    assert last == {}
    assert [set(each) for each in errors] == [run.run.asked for run in lost]
    assert all(isinstance(error, vd.UnreadableVideoError) for each in errors for error in each.values())


def test_cancelled_runs_end(harness: CpuHarness, clip: ClipStore) -> None:
    """At once, and after a while: what was not cut off is right, the rest says that it was cancelled."""
    storage, index = opened(clip("h264_one_gop"))
    want = shown_planes(clip("h264_one_gop"))
    for pause_s in (0.0, 0.002, 0.01):
        runs = harness.runs(storage, index, range(30)) * 1
        ticket = harness.engine.submit(runs)
        time.sleep(pause_s)
        ticket.cancel()
        results = ticket.wait(30)
        for run, errors in zip(runs, results, strict=True):
            assert all(isinstance(error, CancelledError) for error in errors.values())
            for picture, slot in run.slots.items():
                if picture not in errors:
                    frame = index.presentation.tolist().index(picture)
                    assert same_planes(harness.planes(slot), want[frame])


def test_waiting_again_gives_the_same(harness: CpuHarness, clip: ClipStore) -> None:
    ticket = harness.engine.submit(harness.runs(*opened(clip("h264")), [1]))
    first = ticket.wait()
    assert ticket.done
    assert ticket.wait() is first
    assert harness.engine.submit([]).wait() == []


def test_submitting_from_many_threads(harness: CpuHarness, clip: ClipStore) -> None:
    storage, index = opened(clip("h264"))
    want = shown_planes(clip("h264"))
    wrong: list[int] = []

    def ask(seed: int) -> None:
        rng = random.Random(seed)
        for _ in range(8):
            frame = rng.randrange(len(index))
            runs = harness.runs(storage, index, [int(index.presentation[frame])])
            fine = harness.engine.submit(runs).wait() == [{}]
            (slot,) = slots_of(runs).values()
            if not fine or not same_planes(harness.planes(slot), want[frame]):
                wrong.append(frame)

    threads = [threading.Thread(target=ask, args=(seed,)) for seed in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert wrong == []


def test_a_slot_that_refuses_fails_its_picture_alone(engine: Engine[FrameSlot], clip: ClipStore) -> None:
    class Refusing(PlanesSlot):
        def fill(self, frame: Any) -> None:
            raise vd.UnsupportedVideoError("too small")

    storage, index = opened(clip("h264"))
    (run,) = plan_runs(index, [2, 4, 6])
    slots = {2: PlanesSlot(), 4: Refusing(), 6: PlanesSlot()}
    (errors,) = engine.submit([DecodeRun(storage, index, run, slots)]).wait()
    assert errors.keys() == {4}
    assert isinstance(errors[4], vd.UnsupportedVideoError)
    assert slots[2].filled == slots[6].filled == 1


def test_cancelled_runs_end_and_their_slots_are_left_alone(engine: Engine[FrameSlot], clip: ClipStore) -> None:
    storage, index = opened(clip("h264_one_gop"))
    for begun in (False, True):
        reached, go_on = threading.Event(), threading.Event()

        class Slow(PlanesSlot):
            def fill(self, frame: Any, reached: Any = reached, go_on: Any = go_on) -> None:
                reached.set()
                assert go_on.wait(30)
                super().fill(frame)

        (run,) = plan_runs(index, range(30))
        slots: dict[int, PlanesSlot] = {p: Slow() if p == 0 else PlanesSlot() for p in run.asked}
        ticket = engine.submit([DecodeRun(storage, index, run, slots)])
        results: list[Any] = []
        waiter = threading.Thread(target=lambda ticket=ticket, results=results: results.extend(ticket.wait()))
        if begun:
            waiter.start()
            assert reached.wait(30)
        ticket.cancel()
        go_on.set()
        if not begun:
            waiter.start()
        waiter.join(30)
        assert ticket.done
        filled = {picture for picture, slot in slots.items() if slot.filled}
        (errors,) = results
        assert errors.keys() == run.asked - filled
        assert errors, "a run of 30 pictures was cancelled at its first"
        assert all(isinstance(error, CancelledError) for error in errors.values())


def test_timeout(clip: ClipStore) -> None:
    storage, index = opened(clip("h264"))
    go_on = threading.Event()

    class Stuck(PlanesSlot):
        def fill(self, frame: Any) -> None:
            assert go_on.wait(30)
            super().fill(frame)

    (run,) = plan_runs(index, [0])
    slot = Stuck()
    ticket = CpuEngine(1).submit([DecodeRun(storage, index, run, {0: slot})])
    with pytest.raises(TimeoutError):
        ticket.wait(0.05)
    assert not ticket.done
    go_on.set()
    assert ticket.wait(30) == [{}]
    assert slot.filled == 1


def test_in_a_forked_child(engine: Engine[FrameSlot], clip: ClipStore) -> None:
    storage, index = opened(clip("h264"))
    assert engine.submit(CpuHarness(0).runs(storage, index, [1, 20])).wait() == [{}, {}]
    pid = os.fork()
    if pid == 0:
        code = 1
        try:
            code = int(engine.submit(CpuHarness(0).runs(storage, index, [1, 20])).wait(60) != [{}, {}])
        finally:
            os._exit(code)
    assert os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == 0
    assert engine.submit(CpuHarness(0).runs(storage, index, [2])).wait() == [{}]
