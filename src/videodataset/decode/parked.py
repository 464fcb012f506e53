"""Sessions left open where reading went forward, so that going on does not begin at the sync picture again."""

from __future__ import annotations

import os
import threading
from collections import OrderedDict

from videodataset.decode.session import Session
from videodataset.index.model import VideoIndex

_MAX_PARKED = 8


class Parked:
    """Open sessions of this process by index, least recently used closed; one in use belongs to its user."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._sessions: OrderedDict[int, Session] = OrderedDict()

    def take(self, index: VideoIndex) -> Session | None:
        """Return the session parked for this index, if there is one."""
        if not self._sessions:
            return None
        with self._lock:
            return self._sessions.pop(id(index), None)

    def park(self, session: Session) -> None:
        """Keep a session for the next request."""
        session.forget()
        closed = []
        with self._lock:
            # The session holds its index, so the id stays its own for as long as it is parked.
            before = self._sessions.pop(id(session.index), None)
            self._sessions[id(session.index)] = session
            while len(self._sessions) > _MAX_PARKED:
                closed.append(self._sessions.popitem(last=False)[1])
        for old in closed if before is None else [before, *closed]:
            old.close()

    def after_fork(self) -> None:
        """Take a fresh lock. Sessions are plain memory: the child goes on with its copies."""
        self._lock = threading.Lock()


parked = Parked()
os.register_at_fork(after_in_child=parked.after_fork)
