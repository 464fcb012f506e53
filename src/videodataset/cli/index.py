"""`videodataset index`: index a whole tree once, so that every later opening takes milliseconds."""

from __future__ import annotations

import json
import multiprocessing
import os
import signal
import sys
import time
from collections.abc import Iterable, Iterator
from concurrent.futures import ProcessPoolExecutor, as_completed
from pathlib import Path
from typing import Annotated, NamedTuple

import typer

_CONTAINERS = "mp4 m4v mov mkv webm ts m2ts mts avi flv mpg mpeg vob 3gp mxf ogv ivf"
_RAW_STREAMS = "h264 264 avc hevc 265 h265 m2v mjpeg mjpg obu"
SUFFIXES = frozenset(f".{name}" for name in f"{_CONTAINERS} {_RAW_STREAMS}".split())
_INTERRUPTED = 130  # what shells give for Ctrl-C


class Outcome(NamedTuple):
    """What became of one file: frames where it is indexed, else why not."""

    path: str
    state: str  # "new", "current" or "failed"
    frames: int
    reason: str


def index(
    paths: Annotated[list[Path], typer.Argument(help="Folders, searched through, or single files.", exists=True)],
    jobs: Annotated[int, typer.Option("--jobs", "-j", min=0, help="Files at a time; 0 = one per core.")] = 0,
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON object on standard output.")] = False,
    rebuild: Annotated[bool, typer.Option("--rebuild", help="Make indexes again that are up to date.")] = False,
) -> None:
    """Index videos and save the indexes, so that opening them later takes milliseconds.

    Files whose saved index is up to date are passed over, so an interrupted run goes on where it stopped. Exits with 1
    if a file failed, with 130 after Ctrl-C.
    """
    from rich.console import Console

    console = Console(stderr=True)
    files = sorted(set(_videos(paths)))
    started, outcomes, interrupted = time.perf_counter(), list[Outcome](), False
    try:
        for outcome in _with_progress(_run(files, jobs or os.cpu_count() or 1, rebuild), len(files), console):
            outcomes.append(outcome)
    except KeyboardInterrupt:
        interrupted = True
    _report(outcomes, len(files), time.perf_counter() - started, as_json, interrupted, console)
    if interrupted:
        raise typer.Exit(_INTERRUPTED)
    if any(outcome.state == "failed" for outcome in outcomes):
        raise typer.Exit(1)


def _videos(paths: Iterable[Path]) -> Iterator[str]:
    for path in paths:
        if path.is_dir():
            for folder, _, names in os.walk(path):
                yield from (str(Path(folder) / name) for name in names if Path(name).suffix.lower() in SUFFIXES)
        else:
            yield str(path)


def _run(files: list[str], jobs: int, rebuild: bool) -> Iterator[Outcome]:
    if jobs == 1 or len(files) <= 1:
        yield from (index_file(path, rebuild) for path in files)
        return
    context = multiprocessing.get_context("spawn")
    pool = ProcessPoolExecutor(min(jobs, len(files)), context, initializer=_leave_ctrl_c_to_the_parent)
    try:
        futures = {pool.submit(index_file, path, rebuild): path for path in files}
        for future in as_completed(futures):
            yield future.result()
    finally:
        # What has begun is finished and saved; what has not is dropped.
        pool.shutdown(wait=True, cancel_futures=True)


def _leave_ctrl_c_to_the_parent() -> None:
    signal.signal(signal.SIGINT, signal.SIG_IGN)


def index_file(path: str, rebuild: bool) -> Outcome:
    """Index one file unless its saved index is up to date."""
    from videodataset.errors import VideoDatasetError
    from videodataset.index import load_or_build, saved_index_is_current

    try:
        if not rebuild and saved_index_is_current(path):
            return Outcome(path, "current", 0, "")
        return Outcome(path, "new", len(load_or_build(path, rebuild=rebuild)), "")
    except VideoDatasetError as error:
        return Outcome(path, "failed", 0, f"{type(error).__name__}: {error}")


def _with_progress(outcomes: Iterator[Outcome], total: int, console: object) -> Iterator[Outcome]:
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

    columns = (
        TextColumn("indexing"),
        BarColumn(),
        MofNCompleteColumn(),
        TimeRemainingColumn(),
        TextColumn("{task.fields[bad]}"),
    )
    with Progress(*columns, console=console) as progress:  # type: ignore[arg-type]
        task, failed = progress.add_task("", total=total, bad=""), 0
        for outcome in outcomes:
            failed += outcome.state == "failed"
            progress.update(task, advance=1, bad=f"[red]{failed} failed" if failed else "")
            yield outcome


def _report(
    outcomes: list[Outcome], total: int, seconds: float, as_json: bool, interrupted: bool, console: object
) -> None:
    counts = {state: sum(outcome.state == state for outcome in outcomes) for state in ("new", "current", "failed")}
    failures = [{"path": outcome.path, "reason": outcome.reason} for outcome in outcomes if outcome.state == "failed"]
    if as_json:
        facts = {
            "files": total,
            **counts,
            "frames": sum(outcome.frames for outcome in outcomes),
            "seconds": round(seconds, 3),
            "interrupted": interrupted,
            "failures": failures,
        }
        json.dump(facts, sys.stdout, indent=1)
        sys.stdout.write("\n")
        return
    for failure in failures:
        console.print(f"[red]failed[/red] {failure['reason']}", highlight=False, soft_wrap=True)  # type: ignore[attr-defined]
    console.print(  # type: ignore[attr-defined]
        f"{counts['new']} indexed, {counts['current']} up to date, {counts['failed']} failed, of {total} files "
        f"in {seconds:.1f} s"
    )
    if interrupted:
        console.print("Interrupted; run the same command again to go on.")  # type: ignore[attr-defined]
