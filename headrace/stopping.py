"""One process-wide stop: looked at before each chunk, each page and each wait for a permit.

A mapped queue of tasks cannot be cancelled, so work stops by looking at the event.
"""

from __future__ import annotations

import logging
import threading
import weakref

from headrace.errors import HeadraceError

log = logging.getLogger(__name__)


class Stopped(HeadraceError):
    """The stop event was set while something waited or was about to start."""

    def __init__(self, message: str = "stopped on request") -> None:
        super().__init__(message)


class StopEvent(threading.Event):
    """An event with the two moves every worker makes: look at it, and sleep unless it is set.

    A `child` is set with its parent, and can be set alone: one product stops, or the whole run.
    """

    def __init__(self) -> None:
        super().__init__()
        self._children: weakref.WeakSet[StopEvent] = weakref.WeakSet()
        # Re-entrant, since a signal handler may set the event while its thread makes a child.
        self._family = threading.RLock()

    def child(self) -> StopEvent:
        """An event of its own that is set with this one at the latest."""
        child = StopEvent()
        with self._family:
            self._children.add(child)
        if self.is_set():
            child.set()
        return child

    def set(self) -> None:
        """Ask everything that looks at this event, or at a child of it, to stop."""
        super().set()
        with self._family:
            children = list(self._children)
        for child in children:
            child.set()

    def check(self) -> None:
        """Raise `Stopped` if the stop was asked for."""
        if self.is_set():
            raise Stopped

    def sleep(self, seconds: float) -> None:
        """Sleep, but wake and raise `Stopped` as soon as the stop is asked for."""
        if self.wait(max(0.0, seconds)):
            raise Stopped


class Ending:
    """Ends a run before its work is done, for a reason that concerns all of it. The first counts.

    Args:
        stop: of the process; what ends by it was stopped on request.

    Attributes:
        stop: of the run: set with the process's, and by `end`.
        cause: why the run ended, if it was not on request.
    """

    def __init__(self, stop: StopEvent) -> None:
        self.stop = stop.child()
        self.cause: HeadraceError | None = None
        self._lock = threading.Lock()

    def end(self, cause: HeadraceError) -> None:
        """Have everything that looks at `stop` stop."""
        with self._lock:
            first = self.cause is None
            self.cause = self.cause or cause
        if first:
            log.error("the run ends: %s", cause)
        self.stop.set()

    def check(self) -> None:
        """Raise the cause if the run has ended, or `Stopped`."""
        if self.cause is not None:
            # Without those of other threads, which would add up.
            raise self.cause.with_traceback(None)
        self.stop.check()


#: The stop event of this process: signal handlers set it, everything that waits looks at it.
STOP = StopEvent()
