"""Many video files at a time: found below folders, worked on in parallel, with progress; failures are told."""

from __future__ import annotations

import logging
import multiprocessing
import os
import signal
import threading
import time
from collections.abc import Callable, Generator, Iterable, Iterator
from concurrent.futures import ProcessPoolExecutor, as_completed
from concurrent.futures.process import BrokenProcessPool
from contextlib import closing, contextmanager
from dataclasses import dataclass
from functools import partial
from multiprocessing import resource_tracker
from pathlib import Path
from typing import TYPE_CHECKING, Generic, NamedTuple, TypeVar

if TYPE_CHECKING:
    from rich.console import Console
    from rich.progress import Progress

_CONTAINERS = "mp4 m4v mov mkv webm ts m2ts mts avi flv mpg mpeg vob 3gp mxf ogv ivf"
_RAW_STREAMS = "h264 264 avc hevc 265 h265 m2v mjpeg mjpg obu"
SUFFIXES = frozenset(f".{name}" for name in f"{_CONTAINERS} {_RAW_STREAMS}".split())
_INTERRUPTED = 130  # what shells give for Ctrl-C

T = TypeVar("T")


class Failed(NamedTuple):
    """A file, or a folder, that nothing could be done with, and why."""

    path: str
    reason: str


@dataclass(frozen=True)
class Worked(Generic[T]):
    """What came of the files, each list ordered by path.

    Attributes:
        files: how many there were to work on.
        done: what the work gave for the files that it succeeded on.
        failures: files and folders that failed.
        interrupted: Ctrl-C ended it early.
        seconds: how long it took.
    """

    files: int
    done: list[T]
    failures: list[Failed]
    interrupted: bool
    seconds: float

    @property
    def exit_code(self) -> int:
        """130 after Ctrl-C, 1 if anything failed, else 0."""
        return _INTERRUPTED if self.interrupted else int(bool(self.failures))


def work_through(
    paths: Iterable[Path], jobs: int, verb: str, work: Callable[[str], T | Failed], console: Console
) -> Worked[T]:
    """Do the same with every video file below the paths, in worker processes.

    Args:
        paths: folders, searched through, and files, taken whatever their name.
        jobs: files at a time; 0 = one per core.
        verb: what stands before the progress bar, such as "indexing".
        work: takes a path; an exception is a failure of that file. Must be picklable, and so must what it gives.
        console: where progress is shown.
    """
    started, outcomes, interrupted = time.perf_counter(), dict[str, T | Failed](), False
    files: list[str] = []
    try:
        files, unreadable = find_videos(paths)
        outcomes.update({failed.path: failed for failed in unreadable})
        with (
            _progress(verb, console, shown=len(files) > 1) as progress,
            closing(_run(files, jobs or _cores(), partial(_attempt, work))) as run,
        ):
            task, failures = progress.add_task("", total=len(files), bad=""), len(unreadable)
            for path, outcome in run:
                outcomes[path] = outcome
                failures += isinstance(outcome, Failed)
                progress.update(task, advance=1, bad=f"[red]{failures} failed" if failures else "")
    except KeyboardInterrupt:
        interrupted = True
    ordered = [outcomes[path] for path in sorted(outcomes)]
    done = [outcome for outcome in ordered if not isinstance(outcome, Failed)]
    failed = [outcome for outcome in ordered if isinstance(outcome, Failed)]
    return Worked(len(files), done, failed, interrupted, time.perf_counter() - started)


def print_failures(failures: Iterable[Failed], console: Console) -> None:
    """Print one line for each failure."""
    from rich.markup import escape

    for failure in failures:
        console.print(f"[red]failed[/red] {escape(failure.reason)}", highlight=False, soft_wrap=True)


def find_videos(paths: Iterable[Path]) -> tuple[list[str], list[Failed]]:
    """Return the video files below the paths, and the folders that could not be listed."""
    files, unreadable = set[str](), list[Failed]()

    def cannot_list(error: OSError) -> None:
        unreadable.append(Failed(str(error.filename), f"{type(error).__name__}: {error}"))

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


def _attempt(work: Callable[[str], T | Failed], path: str) -> T | Failed:
    # What goes wrong is an outcome; a warning per file would tear the progress bar.
    logging.getLogger("videodataset").addHandler(logging.NullHandler())
    try:
        return work(path)
    except Exception as error:  # whatever it is: one file must not end the run over the others
        return Failed(path, f"{type(error).__name__}: {error}")


Attempt = Callable[[str], "T | Failed"]


def _run(files: list[str], jobs: int, attempt: Attempt[T]) -> Generator[tuple[str, T | Failed], None, None]:
    if len(files) == 1:
        yield files[0], attempt(files[0])
        return
    left = yield from _together(files, jobs, attempt)
    while left:
        # A worker died, of a crash in a codec or for want of memory. Its file is among those that had been handed out:
        # one in each worker, and as many and one more in the pool's queue. Only alone does a file show that it kills.
        handed_out = 2 * jobs + 1
        yield from _one_by_one(left[:handed_out], attempt)
        left = yield from _together(left[handed_out:], jobs, attempt)


def _together(files: list[str], jobs: int, attempt: Attempt[T]) -> Generator[tuple[str, T | Failed], None, list[str]]:
    """Work on files in parallel; return those that were not done because a worker died."""
    left = dict.fromkeys(files)
    if not files:
        return []
    with _pool(min(jobs, len(files))) as pool:
        try:
            with _ctrl_c_held():
                futures = {pool.submit(attempt, path): path for path in files}
        except BrokenProcessPool:
            return files
        for future in as_completed(futures):
            try:
                outcome = future.result()
            except BrokenProcessPool:
                continue
            path = futures[future]
            del left[path]
            yield path, outcome
    return list(left)


def _one_by_one(files: list[str], attempt: Attempt[T]) -> Iterator[tuple[str, T | Failed]]:
    waiting = list(reversed(files))
    while waiting:
        with _pool(1) as pool:
            while waiting:
                path = waiting.pop()
                try:
                    with _ctrl_c_held():
                        future = pool.submit(attempt, path)
                    yield path, future.result()
                except BrokenProcessPool:
                    why = "the process that worked on it died (a crash, or it was killed for its use of memory)"
                    yield path, Failed(path, f"{path}: {why}")
                    break


@contextmanager
def _pool(workers: int) -> Iterator[ProcessPoolExecutor]:
    """Give worker processes; on leaving, what has begun is finished, what has not is dropped."""
    context = multiprocessing.get_context("spawn")
    # Started with the first worker, it would unblock Ctrl-C for the others (CPython before 3.12 leaves it unblocked).
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
    alone decides when they end, and not between starting one and telling it what to do: another thread may take the
    signal, so the main thread's mask alone does not hold it.
    """
    came: list[int] = []
    handler = signal.signal(signal.SIGINT, lambda number, _: came.append(number))
    mask = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, mask)
        signal.signal(signal.SIGINT, handler)
    if came:
        raise KeyboardInterrupt


def _end_with_the_parent() -> None:
    """End this worker when the parent is gone, even killed: the pool's queue alone would leave it waiting for ever."""
    parent = multiprocessing.parent_process()
    if parent is None:
        return

    def watch() -> None:
        parent.join()
        os._exit(1)

    threading.Thread(target=watch, daemon=True).start()


def _progress(verb: str, console: Console, shown: bool) -> Progress:
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

    return Progress(
        TextColumn(verb),
        BarColumn(),
        MofNCompleteColumn(),
        TimeRemainingColumn(),
        TextColumn("{task.fields[bad]}"),
        console=console,
        disable=not shown,
    )
