"""Prefect's app in a web server that writes down what it was told before it ends.

`prefect server start` is not used for three reasons: it opens the port itself, so that another may
take it first; at its end it waits for every open page to leave; and it does not wait for its own
recorder. Task runs reach Prefect as events, which it queues in memory: stopped right after a run of
400 tasks, it had recorded 183.

The only module here that imports Prefect; only the server's own process imports it.
"""

from __future__ import annotations

import time
from types import FrameType

import uvicorn
from prefect.server.api.server import create_app
from prefect.server.utilities.messaging.memory import Topic

#: Longest wait at the end for events to be recorded. `ManagedServer` waits longer before it kills.
RECORDING_TIMEOUT_S = 20.0
#: How long the queues must have been empty: what is on its way through a socket is in none.
_QUIET_S = 0.5
_GRACE_FOR_CONNECTIONS_S = 3


def unhurried_server() -> UnhurriedServer:
    """Return Prefect's API and pages, ready to run, set up from this process's environment."""
    return UnhurriedServer(
        uvicorn.Config(
            create_app(final=True),
            lifespan="on",
            log_level="warning",
            access_log=False,
            # An open page of the UI holds a connection for as long as it is open.
            timeout_graceful_shutdown=_GRACE_FOR_CONNECTIONS_S,
        )
    )


class UnhurriedServer(uvicorn.Server):
    """A web server that, told to end, first lets Prefect's queues run empty (20 s at most)."""

    def __init__(self, config: uvicorn.Config) -> None:
        super().__init__(config)
        self._told_at: float | None = None
        self._busy_at = 0.0

    def end(self) -> None:
        """Begin to end; may be called from any thread."""
        self._told_at = self._busy_at = time.monotonic()

    def handle_exit(self, sig: int, frame: FrameType | None) -> None:
        """Begin to end at the first signal, and do not argue with a second."""
        if self._told_at is None:
            self.end()
        else:
            super().handle_exit(sig, frame)

    async def on_tick(self, counter: int) -> bool:
        """Decide, ten times a second, whether it is time to end."""
        if self._told_at is not None:
            now = time.monotonic()
            if unrecorded_events():
                self._busy_at = now
            if now - self._busy_at > _QUIET_S or now - self._told_at > RECORDING_TIMEOUT_S:
                self.should_exit = True
        return await super().on_tick(counter)


def unrecorded_events() -> int:
    """Return how many events wait in memory for the services that write them down."""
    subscriptions = (s for topic in Topic._topics.values() for s in topic._subscriptions)
    return sum(s._queue.qsize() + s._retry.qsize() for s in subscriptions)
