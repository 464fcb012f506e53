"""`videodataset doctor`: whether this machine can decode on its GPUs, and what mends it if not."""

from __future__ import annotations

import json
import sys
from typing import Annotated

import typer


def doctor(
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON object on standard output.")] = False,
) -> None:
    """Look at driver, GPUs, decoders and installation, and say what is missing and the command that mends it.

    Exits with 0 where the GPU decodes, with 1 where only the CPU does.
    """
    from rich.console import Console
    from rich.table import Table

    from videodataset.diagnosis import diagnose

    diagnosis = diagnose()
    if as_json:
        json.dump(diagnosis.as_dict(), sys.stdout, indent=2)
        sys.stdout.write("\n")
        raise typer.Exit(0 if diagnosis.gpu_decodes else 1)
    console = Console()
    table = Table(show_header=False, box=None)
    for name, value in diagnosis.facts():
        table.add_row(name, value)
    console.print(table)
    if diagnosis.decoders:
        caps = Table("decoder", "chroma", "bits", "engines", "smallest", "largest")
        for each in diagnosis.decoders:
            limits = (f"{each.min_width}x{each.min_height}", f"{each.max_width}x{each.max_height}")
            caps.add_row(each.codec, each.chroma, str(each.depth), str(each.engines), *limits)
        console.print(caps)
    for problem in diagnosis.problems:
        console.print(f"[red]problem[/red] {problem.what}", highlight=False, soft_wrap=True)
        console.print(f"        {problem.remedy}", highlight=False, soft_wrap=True)
    console.print("The GPU decodes." if diagnosis.gpu_decodes else "Only the CPU decodes here.")
    raise typer.Exit(0 if diagnosis.gpu_decodes else 1)
