"""`videodataset index`: index a whole tree once, so that every later opening takes milliseconds."""

from __future__ import annotations

import json
import sys
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, NamedTuple

import typer

from videodataset.cli.files import Failed, Worked, print_failures, work_through

if TYPE_CHECKING:
    from rich.console import Console


class Outcome(NamedTuple):
    """What became of one file."""

    state: str  # "new" or "current"
    frames: int


def index(
    paths: Annotated[list[Path], typer.Argument(help="Folders, searched through, or single files.", exists=True)],
    jobs: Annotated[int, typer.Option("--jobs", "-j", min=0, help="Files at a time; 0 = one per core.")] = 0,
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON object on standard output.")] = False,
    rebuild: Annotated[bool, typer.Option("--rebuild", help="Make indexes again that are up to date.")] = False,
) -> None:
    """Index videos and save the indexes, so that opening them later takes milliseconds.

    Files whose saved index is up to date are passed over, so an interrupted run goes on where it stopped. Exits with 1
    if a file failed, with 130 after Ctrl-C. The first Ctrl-C lets the files in work be finished, a second one does not.
    """
    from rich.console import Console

    console = Console(stderr=True, emoji=False)  # ":v:" in a path is no emoji
    worked = work_through(paths, jobs, "indexing", partial(index_file, rebuild=rebuild), console)
    _report(worked, as_json, console)
    if worked.exit_code:
        raise typer.Exit(worked.exit_code)


def index_file(path: str, rebuild: bool) -> Outcome | Failed:
    """Index one file unless its saved index is up to date."""
    from videodataset.index import load_or_build, saved_index_is_current

    if not rebuild and saved_index_is_current(path):
        return Outcome("current", 0)
    frames = len(load_or_build(path, rebuild=rebuild))
    if not saved_index_is_current(path):
        why = "the index cannot be saved. Make room, or name another folder with VIDEODATASET_INDEX_DIR."
        return Failed(path, f"{path}: {why}")
    return Outcome("new", frames)


def _report(worked: Worked[Outcome], as_json: bool, console: Console) -> None:
    counts = {state: sum(outcome.state == state for outcome in worked.done) for state in ("new", "current")}
    if as_json:
        facts = {
            "files": worked.files,
            **counts,
            "failed": len(worked.failures),
            "frames": sum(outcome.frames for outcome in worked.done),  # of the new ones
            "seconds": round(worked.seconds, 3),
            "interrupted": worked.interrupted,
            "failures": [failure._asdict() for failure in worked.failures],
        }
        json.dump(facts, sys.stdout, indent=1)
        sys.stdout.write("\n")
        return
    print_failures(worked.failures, console)
    console.print(
        f"{counts['new']} indexed, {counts['current']} up to date, {len(worked.failures)} failed, "
        f"of {worked.files} files in {worked.seconds:.1f} s"
    )
    if worked.interrupted:
        console.print("Interrupted; run the same command again to go on.")
