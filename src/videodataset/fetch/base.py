"""What every way to fetch frames does."""

from __future__ import annotations

from abc import ABC, abstractmethod

from videodataset.fetch.work import Work


class Fetch(ABC):
    """Frames on their way; targets are the fetch's until `wait` or `errors` has returned.

    Attributes:
        work: what it costs; complete when `wait` or `errors` has returned.
    """

    work: Work

    def wait(self) -> None:
        """Return when every target is filled, on a GPU as far as the current stream is concerned.

        Raises:
            DamagedVideoError: a frame cannot be decoded without error; of several errors, that of the first ask.
            UnreadableVideoError: a source cannot be read any more.
            UnsupportedVideoError: a picture cannot be converted.
        """
        for error in self.errors():
            if error is not None:
                raise error

    @abstractmethod
    def errors(self) -> list[Exception | None]:
        """Wait, and return what went wrong with each ask, None where its target is filled."""

    @abstractmethod
    def cancel(self) -> None:
        """Stop; targets may be written to until `errors` has returned."""
