"""One process-wide stop: looked at before each chunk, each page and each wait for a permit.

A mapped queue of tasks cannot be cancelled, so work stops because it looks, not because it is told.
"""

from __future__ import annotations

import threading

from headrace.errors import HeadraceError


class Stopped(HeadraceError):  # noqa: N818 - it is a way to end, not an error
    """The stop event was set while something waited or was about to start."""

    def __init__(self, message: str = "stopped on request") -> None:
        super().__init__(message)


class StopEvent(threading.Event):
    """An event with the two moves every worker makes: look at it, and sleep unless it is set."""

    def check(self) -> None:
        """Raise `Stopped` if the stop was asked for."""
        if self.is_set():
            raise Stopped

    def sleep(self, seconds: float) -> None:
        """Sleep, but wake and raise `Stopped` as soon as the stop is asked for."""
        if self.wait(max(0.0, seconds)):
            raise Stopped


#: The stop event of this process: signal handlers set it, everything that waits looks at it.
STOP = StopEvent()
