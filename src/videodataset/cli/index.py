"""`videodataset index`: index a whole tree once, so that every later opening takes milliseconds."""

from __future__ import annotations

import json
import logging
import multiprocessing
import os
import signal
import sys
import threading
import time
from collections.abc import Generator, Iterable, Iterator
from concurrent.futures import ProcessPoolExecutor, as_completed
from concurrent.futures.process import BrokenProcessPool
from contextlib import closing, contextmanager
from multiprocessing import resource_tracker
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, NamedTuple

import typer

if TYPE_CHECKING:
    from rich.console import Console
    from rich.progress import Progress

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
    if a file failed, with 130 after Ctrl-C. The first Ctrl-C lets the files in work be finished, a second one does not.
    """
    from rich.console import Console

    console = Console(stderr=True)
    started, outcomes, interrupted = time.perf_counter(), list[Outcome](), False
    files: list[str] = []
    try:
        files, unreadable = _videos(paths)
        outcomes += unreadable
        with _progress(console) as progress, closing(_run(files, jobs or _cores(), rebuild)) as done:
            task, failed = progress.add_task("", total=len(files), bad=""), len(unreadable)
            for outcome in done:
                outcomes.append(outcome)
                failed += outcome.state == "failed"
                progress.update(task, advance=1, bad=f"[red]{failed} failed" if failed else "")
    except KeyboardInterrupt:
        interrupted = True
    _report(outcomes, len(files), time.perf_counter() - started, as_json, interrupted, console)
    if interrupted:
        raise typer.Exit(_INTERRUPTED)
    if any(outcome.state == "failed" for outcome in outcomes):
        raise typer.Exit(1)


def _videos(paths: Iterable[Path]) -> tuple[list[str], list[Outcome]]:
    """Return the video files below the paths, and the folders that could not be listed."""
    files, unreadable = set[str](), list[Outcome]()

    def cannot_list(error: OSError) -> None:
        unreadable.append(Outcome(str(error.filename), "failed", 0, f"{type(error).__name__}: {error}"))

    for path in paths:
        if not path.is_dir():
            files.add(str(path))
            continue
        for folder, _, names in os.walk(path, onerror=cannot_list):
            found = (os.path.join(folder, name) for name in names if Path(name).suffix.lower() in SUFFIXES)
            # A link that leads nowhere is a failure to tell; a pipe or a socket would be waited for for ever.
            files.update(name for name in found if os.path.isfile(name) or os.path.islink(name))
    return sorted(files), unreadable


def _cores() -> int:
    try:
        return len(os.sched_getaffinity(0))  # fewer than the machine's under taskset and in most job schedulers
    except AttributeError:  # not on Linux
        return os.cpu_count() or 1


def index_file(path: str, rebuild: bool) -> Outcome:
    """Index one file unless its saved index is up to date."""
    from videodataset.index import load_or_build, saved_index_is_current

    # What goes wrong is an outcome; a warning per file would tear the progress bar.
    logging.getLogger("videodataset").addHandler(logging.NullHandler())
    try:
        if not rebuild and saved_index_is_current(path):
            return Outcome(path, "current", 0, "")
        frames = len(load_or_build(path, rebuild=rebuild))
        if not saved_index_is_current(path):
            why = "the index cannot be saved. Make room, or name another folder with VIDEODATASET_INDEX_DIR."
            return Outcome(path, "failed", 0, f"{path}: {why}")
        return Outcome(path, "new", frames, "")
    except Exception as error:  # whatever it is: one file must not end the run over the others
        return Outcome(path, "failed", 0, f"{type(error).__name__}: {error}")


def _run(files: list[str], jobs: int, rebuild: bool) -> Generator[Outcome, None, None]:
    if len(files) == 1:
        yield index_file(files[0], rebuild)
        return
    left = yield from _together(files, jobs, rebuild)
    while left:
        # A worker died, of a crash in a codec or for want of memory. Its file is among those that had been handed out:
        # one in each worker, and as many and one more in the pool's queue. Only alone does a file show that it kills.
        handed_out = 2 * jobs + 1
        yield from _one_by_one(left[:handed_out], rebuild)
        left = yield from _together(left[handed_out:], jobs, rebuild)


def _together(files: list[str], jobs: int, rebuild: bool) -> Generator[Outcome, None, list[str]]:
    """Index files in parallel; return those that were not done because a worker died."""
    left = dict.fromkeys(files)
    if not files:
        return []
    with _pool(min(jobs, len(files))) as pool:
        try:
            with _ctrl_c_held():
                futures = [pool.submit(index_file, path, rebuild) for path in files]
        except BrokenProcessPool:
            return files
        for future in as_completed(futures):
            try:
                outcome = future.result()
            except BrokenProcessPool:
                continue
            del left[outcome.path]
            yield outcome
    return list(left)


def _one_by_one(files: list[str], rebuild: bool) -> Iterator[Outcome]:
    waiting = list(reversed(files))
    while waiting:
        with _pool(1) as pool:
            while waiting:
                path = waiting.pop()
                try:
                    with _ctrl_c_held():
                        future = pool.submit(index_file, path, rebuild)
                    yield future.result()
                except BrokenProcessPool:
                    why = "the process that indexed it died (a crash, or it was killed for its use of memory)"
                    yield Outcome(path, "failed", 0, f"{path}: {why}")
                    break


@contextmanager
def _pool(workers: int) -> Iterator[ProcessPoolExecutor]:
    """Give worker processes; on leaving, what has begun is finished and saved, what has not is dropped."""
    context = multiprocessing.get_context("spawn")
    # CPython unblocks Ctrl-C when it starts this process; done with the first worker, the others would get the signal.
    resource_tracker.ensure_running()
    pool = ProcessPoolExecutor(workers, context, initializer=_end_with_the_parent)
    try:
        yield pool
    finally:
        try:
            pool.shutdown(wait=True, cancel_futures=True)
        except KeyboardInterrupt:
            for worker in multiprocessing.active_children():
                worker.terminate()
            raise


@contextmanager
def _ctrl_c_held() -> Iterator[None]:
    """Keep Ctrl-C until the end of the block, and from processes started in it for ever.

    A terminal sends it to every process, and a worker that is still importing would answer with a traceback. The parent
    alone decides when they end.
    """
    before = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


def _end_with_the_parent() -> None:
    """End this worker when the parent is gone, even killed: the pool's queue alone would leave it waiting for ever."""
    parent = multiprocessing.parent_process()
    if parent is None:
        return

    def watch() -> None:
        parent.join()
        os._exit(1)

    threading.Thread(target=watch, daemon=True).start()


def _progress(console: Console) -> Progress:
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

    return Progress(
        TextColumn("indexing"),
        BarColumn(),
        MofNCompleteColumn(),
        TimeRemainingColumn(),
        TextColumn("{task.fields[bad]}"),
        console=console,
    )


def _report(
    outcomes: list[Outcome], total: int, seconds: float, as_json: bool, interrupted: bool, console: Console
) -> None:
    from rich.markup import escape

    counts = {state: sum(outcome.state == state for outcome in outcomes) for state in ("new", "current", "failed")}
    failures = [{"path": outcome.path, "reason": outcome.reason} for outcome in outcomes if outcome.state == "failed"]
    if as_json:
        facts = {
            "files": total,
            **counts,
            "frames": sum(outcome.frames for outcome in outcomes),  # of the new ones
            "seconds": round(seconds, 3),
            "interrupted": interrupted,
            "failures": failures,
        }
        json.dump(facts, sys.stdout, indent=1)
        sys.stdout.write("\n")
        return
    for failure in failures:
        console.print(f"[red]failed[/red] {escape(failure['reason'])}", highlight=False, soft_wrap=True)
    console.print(
        f"{counts['new']} indexed, {counts['current']} up to date, {counts['failed']} failed, of {total} files "
        f"in {seconds:.1f} s"
    )
    if interrupted:
        console.print("Interrupted; run the same command again to go on.")
