"""Advice: what would make a video cheaper or safer to train from, with the commands. Given only where it applies."""

from __future__ import annotations

import shlex
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from videodataset.inspection import VideoReport

#: The recipes below need at most 4.5 pictures per random frame; what needs little more is not worth a re-encode.
_MANY_PICTURES = 6.0
_HD_HEIGHT, _HD_WIDTH = 720, 1280  # from here on untagged video was likely meant as BT.709
_OUT = "OUT.mp4"


@dataclass(frozen=True)
class Recipe:
    """A command to copy.

    Attributes:
        title: what it makes.
        command: for a shell.
        pictures_per_random_frame: what the result needs; None where the command does not change it.
    """

    title: str
    command: str
    pictures_per_random_frame: float | None = None


@dataclass(frozen=True)
class Advice:
    """One thing to do.

    Attributes:
        kind: a name for programs, such as "long_gop".
        text: what was found and what it means.
        recipes: what to run, if anything; one of them is enough.
    """

    kind: str
    text: str
    recipes: tuple[Recipe, ...] = ()


def no_b_cost(gop: int) -> float:
    """Pictures per random frame of groups of `gop` pictures without B: 1, 2, ... gop, in the mean."""
    return (gop + 1) / 2


def disposable_b_cost(gop: int) -> float:
    """Pictures per random frame of a closed group I P B...B, all B disposable: 1, 2, then 3 for each B."""
    return (1 + 2 + 3 * (gop - 2)) / gop


def advice_for(report: VideoReport) -> tuple[Advice, ...]:
    """Return what to do about a video, the most urgent first."""
    rules = (_damaged, _not_decodable, _long_gop, _open_gop, _through_demuxer, _untagged_color, _variable_frame_rate)
    return tuple(advice for rule in rules if (advice := rule(report)) is not None)


def _damaged(report: VideoReport) -> Advice | None:
    damage = report.damage
    if not damage.pictures:
        return None
    return Advice(
        "damaged",
        f"Bytes are missing or unreadable (pictures: {damage.pictures}), so {damage.frames} of {report.frames} frames "
        f"raise DamagedVideoError. Fetch the file again, then inspect it again.",
        (Recipe("See what FFmpeg says", f"ffmpeg -v error -i {_quoted(report)} -map 0:v:0 -f null -"),),
    )


def _not_decodable(report: VideoReport) -> Advice | None:
    if report.decoded_by.backend is not None:
        return None
    command = f"ffmpeg -i {_quoted(report)} -fps_mode passthrough {_no_b(report)} -pix_fmt yuv420p {_OUT}"
    return Advice(
        "not_decodable",
        f"Nothing here delivers its frames: {report.decoded_by.reason}",
        (Recipe("Re-encode", command, no_b_cost(8)),),
    )


def _long_gop(report: VideoReport) -> Advice | None:
    needed = report.pictures_per_random_frame.needed
    # Of pictures that are lost it is not known whether they were sync points.
    if needed is None or needed <= _MANY_PICTURES or report.damage.pictures:
        return None
    return Advice(
        "long_gop",
        f"A random frame costs {needed:.1f} decoded pictures, as decoding starts at a sync point and a group is up to "
        f"{report.gops.max} pictures long. If random access is what limits you, re-encode. That loses some quality, "
        "less with a lower -crf:",
        _random_access_recipes(report),
    )


def _open_gop(report: VideoReport) -> Advice | None:
    if not report.gops.open or report.damage.pictures:
        return None
    long = _long_gop(report) is not None
    return Advice(
        "open_gop",
        f"Open GOPs (leading pictures: {report.gops.leading_pictures}): these refer to the group before theirs, so "
        "decoding them starts one sync point earlier. Closed GOPs avoid that"
        + ("; the recipes above make them." if long else ":"),
        () if long else _random_access_recipes(report)[-1:],
    )


def _through_demuxer(report: VideoReport) -> Advice | None:
    if report.direct_reads:
        return None
    out = "OUT.mkv" if report.codec == "vp8" else _OUT
    return Advice(
        "through_demuxer",
        "Its packets do not lie in the file in one piece, so every access goes through FFmpeg's demuxer, which is "
        "slower. Remux it without loss:",
        (Recipe("Remux", f"ffmpeg -i {_quoted(report)} -map 0:v:0 -c copy {out}"),),
    )


def _untagged_color(report: VideoReport) -> Advice | None:
    is_yuv = (report.pixel_format or "").startswith("yuv")
    large = report.height >= _HD_HEIGHT or report.width >= _HD_WIDTH
    if not is_yuv or report.color.matrix is not None or not large or report.decoded_by.backend is None:
        return None
    bt709 = "=1:".join(("colour_primaries", "transfer_characteristics", "matrix_coefficients")) + "=1"
    filters = {
        "h264": f"h264_metadata={bt709}",
        "hevc": f"hevc_metadata={bt709}",
        "mpeg2video": f"mpeg2_metadata={bt709}",
        "av1": f"av1_metadata={bt709.replace('colour', 'color')}",
        "vp9": "vp9_metadata=color_space=bt709",
    }
    recipes: tuple[Recipe, ...] = ()
    if report.codec in filters:
        out = _OUT if report.direct_reads and "mp4" in report.container else "OUT.mkv"
        command = f"ffmpeg -i {_quoted(report)} -map 0:v:0 -c copy -bsf:v {filters[report.codec]} {out}"
        recipes = (Recipe("Tag it as BT.709, without loss", command),)
    return Advice(
        "untagged_color",
        f"No colour matrix is tagged, so it is read as {report.color.read_as}, as FFmpeg does. Video of this size is "
        "often meant as BT.709; if yours is, its colours come out slightly off.",
        recipes,
    )


def _variable_frame_rate(report: VideoReport) -> Advice | None:
    times = report.frame_times
    if not times.variable or times.shortest_seconds is None or times.longest_seconds is None:
        return None
    recipes: tuple[Recipe, ...] = ()
    if report.fps:
        command = f"ffmpeg -i {_quoted(report)} -vf fps={report.fps:.6g} {_no_b(report)} {_OUT}"
        recipes = (Recipe("Make it constant, by repeating and dropping frames", command, no_b_cost(8)),)
    return Advice(
        "variable_frame_rate",
        f"The frame rate varies: frames last {1000 * times.shortest_seconds:.1f} to "
        f"{1000 * times.longest_seconds:.1f} ms. Ask by time (get_frames_played_at): a number computed from a frame "
        "rate may name another frame.",
        recipes,
    )


def _random_access_recipes(report: VideoReport) -> tuple[Recipe, ...]:
    # Passthrough keeps every frame and its time.
    start = f"ffmpeg -i {_quoted(report)} -fps_mode passthrough"
    return (
        Recipe("GOP 8 without B-frames", f"{start} {_no_b(report)} {_OUT}", no_b_cost(8)),
        Recipe(
            "Closed GOP 16 with disposable B-frames, in fewer bytes",
            f"{start} {_disposable_b(report)} {_OUT}",
            disposable_b_cost(16),
        ),
    )


def _no_b(report: VideoReport) -> str:
    return f"{_encoder(report)} -g 8 -bf 0"


def _disposable_b(report: VideoReport) -> str:
    if _is_hevc(report):
        params = "-x265-params open-gop=0:b-adapt=0:b-pyramid=0:scenecut=0:rc-lookahead=20"
    else:
        params = "-x264-params open-gop=0:b-adapt=0:b-pyramid=none:scenecut=0"
    return f"{_encoder(report)} -g 16 -bf 15 {params}"


def _encoder(report: VideoReport) -> str:
    return "-c:v libx265 -crf 20" if _is_hevc(report) else "-c:v libx264 -crf 18"


def _is_hevc(report: VideoReport) -> bool:
    # 10-bit H.264 is decoded by few hardware decoders, 10-bit HEVC by most.
    return report.codec == "hevc" or (report.bit_depth or 8) > 8


def _quoted(report: VideoReport) -> str:
    return shlex.quote(report.path)
