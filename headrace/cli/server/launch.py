"""The managed server's own process: `python -m headrace.cli.server.launch FOLDER DESCRIPTOR`.

Prefect's API and pages on a socket that the starter opened (see `serving`). Beside them a watch, so
that the server of a command that was killed does not stay: it ends when nobody has a note on it any
more, and, unless it is kept, when its last user is gone.
"""

from __future__ import annotations

import os
import socket
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path

from headrace.cli.server.locks import UsersLock
from headrace.cli.server.process import TOKEN_VARIABLE
from headrace.cli.server.state import SERVER, StateFolder

_LOOK_EVERY_S = 1.0
_LOOKS_BEFORE_THE_END = 3


def watch(
    folder: StateFolder,
    token: str,
    end: Callable[[], None],
    *,
    sleep: Callable[[float], None] = time.sleep,
) -> None:
    """Call `end` once the server with this token has been of no use for three looks in a row."""
    users = UsersLock(folder.users_lock)
    idle_looks = 0
    while idle_looks < _LOOKS_BEFORE_THE_END:
        sleep(_LOOK_EVERY_S)
        record = folder.read_record(SERVER)
        known = record is not None and record.token == token
        wanted = record is not None and (record.kept or not users.is_unused())
        idle_looks = 0 if known and wanted else idle_looks + 1
    end()


def main(folder_path: str, descriptor: str) -> None:
    """Serve until told to end, or until nobody wants it any more."""
    from headrace.cli.server.serving import unhurried_server

    server = unhurried_server()
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
