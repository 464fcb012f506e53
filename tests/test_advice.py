"""Advice: given where it applies and only there, and its commands do what they promise."""

from __future__ import annotations

import shlex
import shutil
import subprocess
from dataclasses import replace
from pathlib import Path

import pytest

from clips import ClipStore
from videodataset.advice import Advice, advice_for
from videodataset.index import build_index
from videodataset.inspection import VideoReport, inspect_video


def by_kind(report: VideoReport) -> dict[str, Advice]:
    return {advice.kind: advice for advice in advice_for(report)}


@pytest.mark.parametrize(
    ("name", "kinds"),
    [
        ("h264_g2", []),
        ("h264_15b", []),
        ("hevc_no_b", []),
        ("av1_g2", []),
        ("rotate_90", []),
        ("h264_one_gop", ["long_gop"]),
        ("h264_open_gop", ["open_gop"]),
        ("vp9", ["long_gop"]),
        ("h264_ts", ["through_demuxer"]),
        ("vfr", ["variable_frame_rate"]),
    ],
)
def test_only_where_it_applies(name: str, kinds: list[str], clip: ClipStore) -> None:
    assert [advice.kind for advice in inspect_video(clip(name)).advice] == kinds


def test_untagged_color_of_hd_only(clip: ClipStore) -> None:
    report = replace(inspect_video(clip("h264_g2")), width=1280, height=720)
    (advice,) = advice_for(report)
    assert advice.kind == "untagged_color"
    assert "BT.601 limited" in advice.text
    assert not advice_for(replace(report, color=replace(report.color, matrix="bt709")))
    assert not advice_for(replace(report, pixel_format="gray"))


def test_damaged_comes_alone(clip: ClipStore) -> None:
    """Alone: of lost pictures it is not known whether they were sync points."""
    assert list(by_kind(inspect_video(clip("truncated")))) == ["damaged"]


def test_nothing_decodes_it(clip: ClipStore) -> None:
    report = inspect_video(clip("h264_g2"))
    refused = replace(report, decoded_by=replace(report.decoded_by, backend=None, reason="no conversion"))
    assert "no conversion" in by_kind(refused)["not_decodable"].text


def test_commands_quote_the_path(clip: ClipStore, tmp_path: Path) -> None:
    path = shutil.copy(clip("h264_ts"), tmp_path / "it's a $(video).ts")
    command = by_kind(inspect_video(path))["through_demuxer"].recipes[0].command
    assert str(path) in shlex.split(command)


needs_ffmpeg = pytest.mark.skipif(shutil.which("ffmpeg") is None, reason="the commands are for the ffmpeg program")


def run(command: str, folder: Path) -> VideoReport:
    done = subprocess.run(
        shlex.split(command), check=False, cwd=folder, stdin=subprocess.DEVNULL, capture_output=True, text=True
    )
    assert done.returncode == 0, done.stderr
    (out,) = folder.glob("OUT.*")
    return inspect_video(out)


@needs_ffmpeg
@pytest.mark.parametrize("name", ["h264_one_gop", "hevc"])
@pytest.mark.parametrize("which", [0, 1])
def test_recipes_cost_what_they_promise(name: str, which: int, clip: ClipStore, tmp_path: Path) -> None:
    before = inspect_video(clip(name))
    recipe = by_kind(replace(before, pictures_per_random_frame=replace(before.pictures_per_random_frame, needed=50.0)))[
        "long_gop"
    ].recipes[which]
    after = run(recipe.command, tmp_path)
    assert after.frames == before.frames == 40
    assert after.codec == before.codec
    assert not after.gops.open
    # Five groups of 8; or of 16, 16 and 8: the promise is for whole groups.
    expected = recipe.pictures_per_random_frame if which == 0 else (32 * (3 - 3 / 16) + 8 * (3 - 3 / 8)) / 40
    assert after.pictures_per_random_frame.needed == pytest.approx(expected)
    assert not {"long_gop", "open_gop"} & set(by_kind(after))


@needs_ffmpeg
def test_remux_gives_direct_reads(clip: ClipStore, tmp_path: Path) -> None:
    (recipe,) = by_kind(inspect_video(clip("h264_ts")))["through_demuxer"].recipes
    after = run(recipe.command, tmp_path)
    assert after.direct_reads
    assert after.frames == 32
    assert not after.advice


@needs_ffmpeg
@pytest.mark.parametrize("name", ["h264_g2", "hevc_no_b", "av1_g2"])
def test_tag_is_written(name: str, clip: ClipStore, tmp_path: Path) -> None:
    (recipe,) = by_kind(replace(inspect_video(clip(name)), height=1080))["untagged_color"].recipes
    after = run(recipe.command, tmp_path)
    assert after.color.matrix == "bt709"
    before = build_index(clip(name))
    assert after.pictures.coded == len(before.flags), "without decoding anything"


@needs_ffmpeg
def test_rate_is_made_constant(clip: ClipStore, tmp_path: Path) -> None:
    (recipe,) = by_kind(inspect_video(clip("vfr")))["variable_frame_rate"].recipes
    assert not run(recipe.command, tmp_path).frame_times.variable
