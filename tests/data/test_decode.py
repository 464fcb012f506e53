"""`vd.decode`: right frames, shapes, times, and each picture decoded once for a whole call."""

from __future__ import annotations

import io
from collections import Counter
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

import videodataset as vd
from clips import ClipStore
from reference import Reference, assert_picture
from videodataset.decode.session import Session
from videodataset.plan import plan_runs


@pytest.fixture
def fed(monkeypatch: pytest.MonkeyPatch) -> Counter[tuple[int, int]]:
    """How often each picture of each index has been fed."""
    count: Counter[tuple[int, int]] = Counter()
    feed = Session.feed

    def counted(self: Session, picture: int, payloads: Any) -> None:
        count[id(self.index), picture] += 1
        feed(self, picture, payloads)

    monkeypatch.setattr(Session, "feed", counted)
    return count


@pytest.mark.parametrize("threads", [0, 2])
def test_frames_of_many_videos_in_the_asked_order(clip: ClipStore, reference: Reference, threads: int) -> None:
    asked = [
        ("h264", 3),
        ("h264_15b", 40),
        ("h264", 3),
        ("h264_mkv", 0),
        ("h264", -1),
        ("h264_mov", 7),
        ("h264_ts", 30),
    ]
    refs = [vd.FrameRef(clip(name), number) for name, number in asked]
    frames = vd.decode(refs, threads=threads)
    assert frames.shape == (len(asked), 3, 96, 128)
    for got, (name, number) in zip(frames, asked, strict=True):
        assert_picture(got, reference(name)[number])


def test_shapes(clip: ClipStore) -> None:
    path = clip("h264")
    assert vd.decode(vd.FrameRef(path, 3)).shape == (3, 96, 128)
    assert vd.decode(vd.FrameRef(path, [3])).shape == (1, 3, 96, 128)
    assert vd.decode([vd.FrameRef(path, 3)]).shape == (1, 3, 96, 128)
    assert vd.decode([vd.FrameRef(path, [3, 4])] * 5).shape == (5, 2, 3, 96, 128)
    assert vd.decode(vd.FrameRef(path, [])).shape == (0, 3, 96, 128)
    assert vd.decode([]) == []


def test_unequal_shapes_give_a_list(clip: ClipStore, reference: Reference) -> None:
    refs = [vd.FrameRef(clip("h264"), [1, 2]), vd.FrameRef(clip("h264"), [5]), vd.FrameRef(clip("h264_wide"), [4, 4])]
    first, second, third = vd.decode(refs)
    assert [tuple(each.shape) for each in (first, second, third)] == [(2, 3, 96, 128), (1, 3, 96, 128), (2, 3, 96, 146)]
    assert_picture(first[1], reference("h264")[2])
    assert_picture(second[0], reference("h264")[5])
    assert_picture(third[1], reference("h264_wide")[4])


def test_one_size_for_all_by_the_transform_or_the_reference(clip: ClipStore) -> None:
    a, b = clip("h264"), clip("h264_wide")
    small = vd.Transform(size=(48, 64), dtype=torch.float32)
    batch = vd.decode([vd.FrameRef(a, 1), vd.FrameRef(b, 1)], transform=small)
    assert batch.shape == (2, 3, 48, 64)
    assert batch.dtype == torch.float32
    assert 0 <= float(batch.min()) <= float(batch.max()) <= 1
    own, other = vd.decode([vd.FrameRef(a, 1, size=(32, 32)), vd.FrameRef(b, 1)], transform=small)
    assert own.shape == (3, 32, 32)
    assert other.shape == (3, 48, 64)


def test_crop_is_part_of_the_picture(clip: ClipStore) -> None:
    whole = vd.decode(vd.FrameRef(clip("h264"), 9))
    assert torch.equal(vd.decode(vd.FrameRef(clip("h264"), 9, crop=(11, 20, 31, 40))), whole[:, 11:42, 20:60])


def test_layouts(clip: ClipStore) -> None:
    ref = vd.FrameRef(clip("h264"), [3, 4])
    plain = vd.decode(ref)
    assert torch.equal(vd.decode(ref, transform=vd.Transform(dimension_order="NHWC")), plain.permute(0, 2, 3, 1))
    floats = vd.decode([ref, ref], transform=vd.Transform(dtype=torch.float32))
    assert torch.allclose(floats[1], plain / 255)


def test_samples_as_coded(clip: ClipStore) -> None:
    yuv = vd.decode([vd.FrameRef(clip("h264_10bit"), 2, output="yuv")])
    gray = vd.decode(vd.FrameRef(clip("h264_10bit"), [2, 3], output="gray16"))
    assert yuv.shape == (1, 3, 96, 128)
    assert yuv.dtype == gray.dtype == torch.uint16
    assert gray.shape == (2, 1, 96, 128)
    assert torch.equal(yuv[0, 0].int(), gray[0, 0].int())
    assert 255 < int(gray.int().max()) < 1024
    assert vd.decode(vd.FrameRef(clip("h264"), 2, output="yuv")).dtype == torch.uint8


def test_times_played_and_nearest(clip: ClipStore) -> None:
    """Frame k of this clip is shown at (k*k//4 + 2k) / 25 s."""
    path = clip("vfr")
    shown = np.array([(k * k // 4 + 2 * k) / 25 for k in range(32)])
    rng = np.random.default_rng(0)
    asked = np.sort(rng.uniform(shown[0], shown[-1], 40))
    played = vd.decode(vd.FrameRef(path, seconds=asked, times=True))
    assert np.array_equal(played.pts_seconds.numpy(), [shown[shown <= t].max() for t in asked])
    nearest = vd.decode(vd.FrameRef(path, seconds=asked, match="nearest", times=True))
    assert np.array_equal(nearest.pts_seconds.numpy(), [shown[np.abs(shown - t).argmin()] for t in asked])
    assert played.pts_seconds.dtype == torch.float64
    where = [int(np.flatnonzero(shown == t)[0]) for t in nearest.pts_seconds.numpy()]
    assert torch.equal(nearest.data, vd.decode(vd.FrameRef(path, where)))


def test_tolerance(clip: ClipStore) -> None:
    path = clip("h264")  # 25 frames a second from 0 s on
    near = vd.FrameRef(path, seconds=[0.0799, 0.0801, -0.0001], match="nearest", tolerance_s=2e-4, times=True)
    assert vd.decode(near).pts_seconds.tolist() == [0.08, 0.08, 0.0]
    with pytest.raises(vd.FrameIndexError, match=r"0\.0799 s.*tolerance"):
        vd.decode(vd.FrameRef(path, seconds=0.0799, match="nearest", tolerance_s=1e-5))
    with pytest.raises(vd.FrameIndexError, match="tolerance"):
        vd.decode(vd.FrameRef(path, seconds=0.0799, tolerance_s=1e-4))  # frame 1 is on screen, from 0.04 s on
    for seconds in (-0.1, 1e9, float("nan"), float("inf")):
        for match in ("nearest", "played"):
            with pytest.raises(vd.FrameIndexError):
                vd.decode(vd.FrameRef(path, seconds=seconds, match=match))
        with pytest.raises(vd.FrameIndexError):
            vd.decode(vd.FrameRef(path, seconds=seconds, match="nearest", tolerance_s=0.05))


def test_times_come_in_the_shape_of_the_frames(clip: ClipStore) -> None:
    ref = vd.FrameRef(clip("h264"), [2, 3], times=True)
    batch = vd.decode([ref, ref, ref])
    assert batch.data.shape == (3, 2, 3, 96, 128)
    assert batch.pts_seconds.tolist() == [[2 / 25, 3 / 25]] * 3
    assert batch.duration_seconds.tolist() == [[1 / 25, 1 / 25]] * 3
    one = vd.FrameRef(clip("h264"), 4, times=True).load()
    assert isinstance(one, vd.FrameBatch)
    assert one.data.shape == (3, 96, 128)
    with pytest.raises(ValueError, match="times"):
        vd.decode([ref, vd.FrameRef(clip("h264"), [2, 3])])


def test_a_picture_asked_for_often_is_decoded_once(clip: ClipStore, fed: Counter[tuple[int, int]]) -> None:
    refs = [vd.FrameRef(clip("h264_15b"), number) for number in [33, 40, 33, 47, 33, 36]]
    refs += [vd.FrameRef(clip("h264_15b"), [40, 41]), vd.FrameRef(clip("hevc"), 5), vd.FrameRef(clip("hevc"), 5)]
    vd.decode(refs)
    assert set(fed.values()) == {1}
    assert len({index for index, _ in fed}) == 2


def test_only_needed_pictures_are_decoded(clip: ClipStore, fed: Counter[tuple[int, int]]) -> None:
    """A closed group of 16: an I, then a P after 15 B pictures that nothing refers to."""
    vd.decode(vd.FrameRef(clip("h264_15b"), 8))
    index = vd.VideoDecoder(clip("h264_15b"))._index
    (run,) = plan_runs(index, [int(index.presentation[8])])
    assert sum(fed.values()) == len(run.pictures) <= 3 < run.span


def test_sources(clip: ClipStore, tmp_path: Path, reference: Reference) -> None:
    data = clip("h264").read_bytes()
    packed = tmp_path / "some.tar"
    packed.write_bytes(b"x" * 1000 + data + b"y" * 500)
    inside = vd.FrameRef(packed, 7, byte_range=(1000, len(data)))
    for source in (vd.FrameRef(data, 7), vd.FrameRef(io.BytesIO(data), 7), inside, inside):
        assert_picture(vd.decode(source), reference("h264")[7])
    with pytest.raises(vd.UnreadableVideoError, match="not inside"):
        vd.decode(vd.FrameRef(packed, 7, byte_range=(1000, 10**9)))
    with pytest.raises(vd.UnreadableVideoError):
        vd.decode(vd.FrameRef(packed, 7, byte_range=(0, 1000)))


def test_a_replaced_file_is_read_anew(clip: ClipStore, tmp_path: Path, reference: Reference) -> None:
    path = tmp_path / "video.mp4"
    path.write_bytes(clip("h264").read_bytes())
    assert_picture(vd.decode(vd.FrameRef(path, 5)), reference("h264")[5])
    path.write_bytes(clip("h264_15b").read_bytes())
    assert_picture(vd.decode(vd.FrameRef(path, 45)), reference("h264_15b")[45])


def test_errors_come_before_work(clip: ClipStore, tmp_path: Path, fed: Counter[tuple[int, int]]) -> None:
    good = vd.FrameRef(clip("h264"), 1)
    with pytest.raises(vd.FrameIndexError, match=r"h264\.mp4: no frame 48; the video has 48 frames"):
        vd.decode([good, vd.FrameRef(clip("h264"), [2, 48])])
    with pytest.raises(vd.FrameIndexError):
        vd.decode([good, vd.FrameRef(clip("h264"), -49)])
    with pytest.raises(vd.UnreadableVideoError):
        vd.decode([good, vd.FrameRef(tmp_path / "none.mp4", 1)])
    with pytest.raises(ValueError, match="crop"):
        vd.decode([good, vd.FrameRef(clip("h264"), 1, crop=(90, 0, 20, 20))])
    with pytest.raises(vd.NvdecUnavailableError):
        vd.decode([good], device="cuda:99")
    assert not fed


def test_damage_names_the_file(clip: ClipStore) -> None:
    with pytest.raises(vd.DamagedVideoError, match="truncated"):
        vd.decode([vd.FrameRef(clip("truncated"), k) for k in range(len(vd.VideoDecoder(clip("truncated"))))])
