"""`videodataset inspect`: what a video is, what a random frame of it costs, and what to do about it."""

from __future__ import annotations

import io
import json
import os
import sys
from collections import Counter
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from videodataset.cli.files import Failed, Worked, print_failures, work_through

if TYPE_CHECKING:
    from rich.console import Console

    from videodataset.advice import Advice
    from videodataset.inspection import Gops, PerRandomFrame, VideoReport

_PIPED_WIDTH = 200  # columns of a table that is not written to a terminal
_TEXT_WIDTH = 100  # longer lines are hard to read


def inspect(
    paths: Annotated[
        list[Path],
        typer.Argument(help="Single files, or folders, searched through.", exists=True, metavar="FILE_OR_DIR"),
    ],
    jobs: Annotated[int, typer.Option("--jobs", "-j", min=0, help="Files at a time; 0 = one per core.")] = 0,
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON object on standard output.")] = False,
) -> None:
    """Say what videos are, what a random frame of them costs, who decodes them here, and what to do about it.

    One file gives a table of facts and advice, several or a folder a row for each and a summary. Indexes are made and
    saved where they are missing. Exits with 1 if a file failed, with 130 after Ctrl-C.
    """
    from rich.console import Console

    errors = Console(stderr=True, emoji=False)  # ":v:" in a path or a command is no emoji
    worked = work_through(paths, jobs, "inspecting", inspect_file, errors)
    single = len(paths) == 1 and not paths[0].is_dir()
    if as_json:
        json.dump(_as_json(worked, single), sys.stdout, indent=1)
        sys.stdout.write("\n")
    else:
        print_failures(worked.failures, errors)
        if isinstance(sys.stdout, io.TextIOWrapper):
            sys.stdout.reconfigure(errors="backslashreplace")  # file names may be bytes that are no text
        console = Console(emoji=False)
        if not console.is_terminal and "COLUMNS" not in os.environ:
            console = Console(emoji=False, width=_PIPED_WIDTH)
        if not single:
            _print_many(worked, console)
        elif worked.done:
            _print_one(worked.done[0], console)
    if worked.exit_code:
        raise typer.Exit(worked.exit_code)


def inspect_file(path: str) -> VideoReport | Failed:
    """Inspect one file."""
    from videodataset.inspection import inspect_video

    return inspect_video(path)


def _as_json(worked: Worked[VideoReport], single: bool) -> dict[str, Any]:
    failures = [failure._asdict() for failure in worked.failures]
    if single and len(worked.done) + len(failures) == 1:
        return worked.done[0].to_json() if worked.done else failures[0]
    return {
        "files": [report.to_json() for report in worked.done],
        "failures": failures,
        "summary": {**summary(worked.done), "failed": len(failures), "interrupted": worked.interrupted},
    }


def summary(reports: Sequence[VideoReport]) -> dict[str, Any]:
    """Sum up many reports; means are over all frames of all files."""
    return {
        "files": len(reports),
        "frames": sum(report.frames for report in reports),
        "duration_seconds": sum(report.duration_seconds for report in reports),
        "size_bytes": sum(report.size_bytes for report in reports),
        "codecs": dict(Counter(report.codec for report in reports).most_common()),
        "sizes": dict(Counter(f"{report.width}x{report.height}" for report in reports).most_common()),
        "decoded_by": dict(Counter(report.decoded_by.backend or "nothing" for report in reports).most_common()),
        "pictures_per_random_frame": _mean(reports, "pictures_per_random_frame"),
        "bytes_per_random_frame": _mean(reports, "bytes_per_random_frame"),
        "advice": dict(Counter(advice.kind for report in reports for advice in report.advice).most_common()),
    }


def _mean(reports: Sequence[VideoReport], name: str) -> dict[str, float | None]:
    costs: list[tuple[PerRandomFrame, int]] = [(getattr(report, name), report.frames) for report in reports]
    frames = sum(count for _, count in costs)
    if not frames:
        return {"all": None, "needed": None}
    return {
        which: sum((getattr(cost, which) or 0.0) * count for cost, count in costs) / frames
        for which in ("all", "needed")
    }


def _print_one(report: VideoReport, console: Console) -> None:
    from rich.markup import escape
    from rich.table import Table

    console.print(f"[bold]{escape(report.path)}[/bold]", highlight=False, soft_wrap=True)
    table = Table(box=None, show_header=False, pad_edge=False, padding=(0, 2, 0, 0))
    table.add_column(style="dim", no_wrap=True)
    table.add_column()
    for name, value in _lines(report):
        table.add_row(name, escape(value))
    console.print(table, highlight=False)
    _print_advice(report.advice, console)


def _print_advice(all_advice: Sequence[Advice], console: Console) -> None:
    from rich.markup import escape
    from rich.padding import Padding

    for advice in all_advice:
        console.print()
        console.print(f"[yellow]{advice.kind.replace('_', ' ')}[/yellow]", highlight=False)
        console.print(
            Padding(escape(advice.text), (0, 0, 0, 2)), highlight=False, width=min(console.width, _TEXT_WIDTH)
        )
        for recipe in advice.recipes:
            cost = recipe.pictures_per_random_frame
            expected = "" if cost is None else f" ({cost:.2g} pictures per random frame)"
            console.print(f"  {recipe.title}{expected}:", highlight=False)
            # One line, whatever the width, so that it can be copied.
            console.print(f"    [bold]{escape(recipe.command)}[/bold]", highlight=False, soft_wrap=True)


def _lines(report: VideoReport) -> Iterator[tuple[str, str]]:
    gops, color, times = report.gops, report.color, report.frame_times
    yield "container", f"{report.container}, {_bytes(report.size_bytes)}"
    yield "codec", " ".join(filter(None, (report.codec, report.profile and f"({report.profile})")))
    yield (
        "size",
        f"{report.width}x{report.height}" + (f", rotated by {report.rotation:g} degrees" if report.rotation else ""),
    )
    yield "pixels", f"{report.pixel_format or 'unknown'}" + (f", {report.bit_depth} bit" if report.bit_depth else "")
    yield "colour", _color_line(report)
    yield "", f"primaries {color.primaries or 'not tagged'}, transfer {color.transfer or 'not tagged'}"
    yield (
        "frames",
        f"{report.frames}, {report.duration_seconds:.3f} s" + (f", {report.fps:.6g} fps" if report.fps else ""),
    )
    if times.shortest_seconds is None or times.longest_seconds is None:
        yield "frame rate", "unknown"
    elif times.variable:
        yield "frame rate", f"variable, {1000 * times.shortest_seconds:.1f} to {1000 * times.longest_seconds:.1f} ms"
    else:
        yield "frame rate", "constant"
    yield (
        "GOPs",
        (
            f"{gops.sync_points}, of {_gop_lengths(gops)}, "
            + (f"open (leading pictures: {gops.leading_pictures})" if gops.open else "closed")
        ),
    )
    yield "B-frames", f"yes, reordered by up to {report.reorder_depth}" if report.b_frames else "no"
    yield "pictures", _pictures_line(report)
    yield "random frame", f"{_pair(report.pictures_per_random_frame, _number)} pictures decoded"
    yield "", f"{_pair(report.bytes_per_random_frame, _bytes)} in their packets"
    yield "reads", "direct, by position" if report.direct_reads else "through FFmpeg's demuxer"
    yield "decoded by", f"{report.decoded_by.backend or 'nothing'}: {report.decoded_by.reason}"
    yield "damage", _damage_line(report)


def _gop_lengths(gops: Gops) -> str:
    if gops.min == gops.max:
        return f"{gops.max} pictures"
    return f"{gops.min} to {gops.max} pictures (median {gops.median:g})"


def _pictures_line(report: VideoReport) -> str:
    pictures = report.pictures
    facts = [f"{pictures.coded}", f"{100 * pictures.disposable_share:.0f} % disposable"]
    if pictures.hidden:
        facts.append(f"{pictures.hidden} hidden")
    if pictures.cut_away:
        facts.append(f"{pictures.cut_away} cut away by an edit list")
    if pictures.temporal_layers > 1:
        facts.append(f"{pictures.temporal_layers} temporal layers")
    return ", ".join(facts)


def _color_line(report: VideoReport) -> str:
    color = report.color
    if color.read_as in (None, "RGB"):
        return color.read_as or f"{color.matrix or 'unknown'}, no conversion"
    if color.matrix is None and color.range is None:
        return f"not tagged, read as {color.read_as}"
    tags = f"{color.matrix or 'matrix not tagged'}, {color.range or 'range not tagged'}"
    return f"{tags}, read as {color.read_as}"


def _damage_line(report: VideoReport) -> str:
    damage = report.damage
    if not damage.pictures:
        return "none found without decoding"
    return f"{damage.pictures} pictures, so {damage.frames} frames cannot be decoded"


def _pair(cost: PerRandomFrame, form: Any) -> str:
    if cost.all is None or cost.needed is None:
        return "none"
    if cost.all == cost.needed:
        return f"{form(cost.all)}"
    return f"{form(cost.needed)} (of {form(cost.all)})"


def _number(value: float) -> str:
    return f"{value:.2f}" if value < 100 else f"{value:.0f}"


def _bytes(value: float) -> str:
    for unit in ("B", "kB", "MB"):
        if value < 1000:
            return f"{value:.0f} {unit}" if unit == "B" or value >= 100 else f"{value:.1f} {unit}"
        value /= 1000
    return f"{value:.1f} GB"


def _print_many(worked: Worked[VideoReport], console: Console) -> None:
    from rich.markup import escape
    from rich.table import Table

    if worked.done:
        base = os.path.commonpath([os.path.dirname(os.path.abspath(report.path)) for report in worked.done])
        console.print(f"[bold]{escape(base)}[/bold]", highlight=False, soft_wrap=True)
        table = Table(box=None, pad_edge=False, padding=(0, 1, 0, 0), header_style="dim")
        table.add_column("file", overflow="fold", min_width=16)
        for name in ("codec", "size", "fps", "frames", "GOP", "pictures\nper frame", "bytes\nper frame"):
            table.add_column(name, no_wrap=True, justify="left" if name in ("codec", "size") else "right")
        table.add_column("advice", style="yellow")
        for report in worked.done:
            table.add_row(
                escape(os.path.relpath(report.path, base)),
                report.codec,
                f"{report.width}x{report.height}",
                f"{report.fps:.6g}" if report.fps else "?",
                str(report.frames),
                f"{report.gops.median:g}",
                _cell(report.pictures_per_random_frame.needed, _number),
                _cell(report.bytes_per_random_frame.needed, _bytes),
                ", ".join(advice.kind.replace("_", " ") for advice in report.advice),
            )
        console.print(table, highlight=False)
        console.print()
    _print_summary(worked, console)


def _cell(value: float | None, form: Any) -> str:
    return "" if value is None else form(value)


def _print_summary(worked: Worked[VideoReport], console: Console) -> None:
    facts = summary(worked.done)
    mean = facts["pictures_per_random_frame"]
    console.print(
        f"{facts['files']} inspected, {len(worked.failures)} failed, of {worked.files} files in {worked.seconds:.1f} s",
        highlight=False,
    )
    if facts["frames"]:
        hours = facts["duration_seconds"] / 3600
        console.print(
            f"{facts['frames']} frames, {hours:.2f} h, {_bytes(facts['size_bytes'])}; {_counts(facts['codecs'])}",
            highlight=False,
        )
        console.print(
            f"a random frame costs {_number(mean['needed'])} decoded pictures (of {_number(mean['all'])}) and "
            f"{_bytes(facts['bytes_per_random_frame']['needed'])}",
            highlight=False,
        )
    if facts["advice"]:
        kinds = {kind.replace("_", " "): count for kind, count in facts["advice"].items()}
        console.print(f"advice: {_counts(kinds)}. Inspect one file alone for what to do.", highlight=False)
    if worked.interrupted:
        console.print("Interrupted.", highlight=False)


def _counts(counts: dict[str, int]) -> str:
    return ", ".join(f"{count} {name}" for name, count in counts.items())
