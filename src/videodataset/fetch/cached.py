"""A fetch that takes from a cache what that holds, and gives it what it had to decode."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np
import torch

from videodataset.fetch.ask import Ask
from videodataset.fetch.base import Fetch
from videodataset.fetch.frame_cache import FrameCache, Wanted, wanted_of
from videodataset.fetch.work import Work


class CachedFetch(Fetch):
    """Frames on their way, some of them from a cache; see `Fetch`.

    Args:
        asks: with memory of their own.
        device: where that is.
        cache: what is asked first.
        begin: fetches what it does not hold.
    """

    def __init__(
        self, asks: Sequence[Ask], device: torch.device, cache: FrameCache, begin: Callable[[Sequence[Ask]], Fetch]
    ) -> None:
        self._cache, self._device = cache, device
        wanted = [wanted_of(ask) for ask in asks]
        known = [each for each in wanted if each is not None]
        filled = iter(cache.take(known))
        self.work = Work()
        self._missing: list[Ask] = []
        self._of: list[int] = []  # which of the asks each is a stretch of
        for k, (ask, each) in enumerate(zip(asks, wanted, strict=True)):
            done = next(filled) if each is not None else np.empty(0, np.int64)
            self.work += Work(cache_hits=len(done))
            for stretch in _missing(ask, done):
                self._missing.append(stretch)
                self._of.append(k)
        self._count = len(asks)
        self._hit = None if device.type == "cpu" else torch.cuda.current_stream(device).record_event()
        self._out = {id(ask.out): ask.out for ask in asks} if self.work.cache_hits else {}
        self._stream = None if device.type == "cpu" else torch.cuda.current_stream(device)
        self._fetch = begin(self._missing) if self._missing else None
        self._errors: list[Exception | None] | None = None

    def errors(self) -> list[Exception | None]:
        """See `Fetch.errors`."""
        if self._errors is not None:
            return self._errors
        self._come_behind_hits()
        errors: list[Exception | None] = [None] * self._count
        made: list[Wanted] = []
        for k, ask, error in zip(self._of, self._missing, self._fetch.errors() if self._fetch else [], strict=True):
            if error is not None:
                errors[k] = errors[k] or error
            elif (each := wanted_of(ask)) is not None:
                made.append(each)
        self._cache.put(made)
        if self._fetch is not None:
            self.work += self._fetch.work
        self._of, self._missing, self._out, self._errors = [], [], {}, errors
        return errors

    def cancel(self) -> None:
        """See `Fetch.cancel`."""
        if self._fetch is not None:
            self._fetch.cancel()

    def _come_behind_hits(self) -> None:
        """Where another stream waits than began: it comes behind the copies that were queued then."""
        if self._hit is None:
            return
        stream = torch.cuda.current_stream(self._device)
        if stream != self._stream:
            stream.wait_event(self._hit)
            for out in self._out.values():
                if out is not None:
                    out.record_stream(stream)


def _missing(ask: Ask, done: np.ndarray[tuple[int], np.dtype[np.int64]]) -> list[Ask]:
    """The stretches of an ask that are not done."""
    if not len(done):
        return [ask]
    left = np.setdiff1d(np.arange(len(ask.frames)), done)
    stretches = np.split(left, np.flatnonzero(np.diff(left) > 1) + 1) if len(left) else []
    return [Ask(ask.video, ask.frames[at], ask.output, ask.out, ask.first + int(at[0])) for at in stretches]
