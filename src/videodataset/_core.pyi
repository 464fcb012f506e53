"""The native core: NVDEC sessions over the NVIDIA driver, which is opened at run time."""

from typing import Any

import numpy as np
import numpy.typing as npt

class CoreError(RuntimeError):
    """args: what kind of error, and the message."""

class Video:
    def __init__(
        self,
        name: str,
        path: bytes | None,
        identity: tuple[int, int, int],
        codec: int,
        nal_length_size: int,
        packet_offset: npt.NDArray[np.int64],
        packet_size: npt.NDArray[np.int64],
        first_packet: npt.NDArray[np.int64],
        sync: npt.NDArray[np.uint8],
        parameter_sets: npt.NDArray[np.int32],
        parameter_set_blobs: list[bytes],
    ) -> None: ...

#: kind of failure, message, asked pictures that never came, fed pictures that are bad, format found
Outcome = tuple[str | None, str, list[int], list[int], tuple[int, int, int, int] | None]

class Ticket:
    @property
    def done(self) -> bool: ...
    def wait(self, timeout_s: float | None = None) -> list[Outcome | None] | None: ...
    def cancel(self) -> None: ...
    def order_before(self, stream: int) -> None: ...
    def synchronize(self) -> None: ...

class Engine:
    def __init__(self, device: int, sessions: int) -> None: ...
    def submit(
        self,
        videos: list[Video],
        pictures: npt.NDArray[np.int32],
        first_picture: npt.NDArray[np.int64],
        slots: npt.NDArray[np.int64],
        first_slot: npt.NDArray[np.int64],
        payloads: list[list[bytes] | None],
        stream: int,
    ) -> Ticket: ...
    def close(self) -> None: ...
    def statistics(self) -> dict[str, int]: ...
    def caps(self, codec: int, chroma: int, depth: int) -> dict[str, int] | None: ...

def driver_info() -> dict[str, Any]: ...
def driver_calls() -> int: ...
