"""The managed server's own process: `python -m headrace.cli.server.launch FOLDER DESCRIPTOR`.

Prefect's API and pages on a socket that the starter opened. Beside them a watch, so that the server
of a command that was killed does not stay: it ends when there is no record of it any more, and,
unless it is kept, when its last user is gone.

`prefect server start` is not used for three reasons: it opens the port itself, so that another
process may take it first; at its end it waits for every open page to leave; and it does not wait
for its own recorder. Task runs reach Prefect as events, which it queues in memory: stopped right
after a run of 400 tasks, it had recorded 183.

The only module here that imports Prefect; only the server's own process imports it.
"""

from __future__ import annotations

import os
import socket
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path
from types import FrameType

import msgspec
import uvicorn
from prefect.server.api.server import create_app
from prefect.server.utilities.messaging.memory import Topic

from headrace.cli.server.process import TOKEN_VARIABLE
from headrace.cli.server.state import SERVER, StateFolder, UsersLock
from headrace.locks import LockTimeout, locked

#: Longest wait at the end for events to be recorded. `ManagedServer` waits longer before it kills.
RECORDING_TIMEOUT_S = 20.0
#: How long the queues must have been empty: what is on its way through a socket is in none.
_QUIET_S = 0.5
_GRACE_FOR_CONNECTIONS_S = 3


def draining_server() -> DrainingServer:
    """Return Prefect's API and pages, ready to run, set up from this process's environment."""
    return DrainingServer(
        uvicorn.Config(
            create_app(final=True),
            lifespan="on",
            log_level="warning",
            access_log=False,
            # An open page of the UI holds a connection for as long as it is open.
            timeout_graceful_shutdown=_GRACE_FOR_CONNECTIONS_S,
        )
    )


class DrainingServer(uvicorn.Server):
    """A web server that lets Prefect's queues run empty before it ends (20 s at most)."""

    def __init__(self, config: uvicorn.Config) -> None:
        super().__init__(config)
        self._ending_since: float | None = None
        self._busy_at = 0.0

    def end(self) -> None:
        """Begin to end; may be called from any thread."""
        self._ending_since = self._busy_at = time.monotonic()

    def handle_exit(self, sig: int, frame: FrameType | None) -> None:
        """Begin to end at the first signal; end at once at a second."""
        if self._ending_since is None:
            self.end()
        else:
            super().handle_exit(sig, frame)

    async def on_tick(self, counter: int) -> bool:
        """Decide, ten times a second, whether it is time to end."""
        if self._ending_since is not None:
            now = time.monotonic()
            if unrecorded_events():
                self._busy_at = now
            if now - self._busy_at > _QUIET_S or now - self._ending_since > RECORDING_TIMEOUT_S:
                self.should_exit = True
        return await super().on_tick(counter)


def unrecorded_events() -> int:
    """Return how many events wait in memory for the services that write them down."""
    subscriptions = (s for topic in Topic._topics.values() for s in topic._subscriptions)
    return sum(s._queue.qsize() + s._retry.qsize() for s in subscriptions)


_LOOK_EVERY_S = 1.0
_LOOKS_BEFORE_THE_END = 3


def watch(
    folder: StateFolder,
    token: str,
    end: Callable[[], None],
    *,
    sleep: Callable[[float], None] = time.sleep,
) -> None:
    """Call `end` once three looks in a row found no need for the server with this token.

    It still answers for a while then. So its record says first that it ends, under the lock under
    which a command would find it.
    """
    idle_looks = 0
    while True:
        sleep(_LOOK_EVERY_S)
        idle_looks = 0 if _is_needed(folder, token) else idle_looks + 1
        if idle_looks >= _LOOKS_BEFORE_THE_END and _records_its_end(folder, token):
            break
    end()


def _is_needed(folder: StateFolder, token: str) -> bool:
    record = folder.read_record(SERVER)
    if record is None or record.token != token:
        return False
    return record.kept or not UsersLock(folder.users_lock).is_unused()


def _records_its_end(folder: StateFolder, token: str) -> bool:
    try:
        with locked(folder.control_lock, limit_s=_LOOK_EVERY_S):
            if _is_needed(folder, token):
                return False
            record = folder.read_record(SERVER)
            if record is not None and record.token == token:
                folder.write_record(msgspec.structs.replace(record, ending=True))
            return True
    except LockTimeout:
        # Another process starts or stops it at this moment.
        return False


def main(folder_path: str, descriptor: str) -> None:
    """Serve until a signal, or until the server is not needed any more."""
    server = draining_server()
    # The folder is {home}/prefect; `StateFolder` wants the home.
    folder = StateFolder(Path(folder_path).parent)
    threading.Thread(
        target=watch,
        args=(folder, os.environ[TOKEN_VARIABLE], server.end),
        daemon=True,
        name="watch",
    ).start()
    server.run(sockets=[socket.socket(fileno=int(descriptor))])


if __name__ == "__main__":
    main(*sys.argv[1:])
