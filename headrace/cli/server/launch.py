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

import msgspec

from headrace.cli.server.locks import UsersLock
from headrace.cli.server.process import TOKEN_VARIABLE
from headrace.cli.server.state import SERVER, StateFolder
from headrace.locks import LockTimeout, locked

_LOOK_EVERY_S = 1.0
_LOOKS_BEFORE_THE_END = 3


def watch(
    folder: StateFolder,
    token: str,
    end: Callable[[], None],
    *,
    sleep: Callable[[float], None] = time.sleep,
) -> None:
    """Call `end` once the server with this token has been of no use for three looks in a row.

    It still answers for a while then. So the note on it says first that it ends, under the lock
    under which a command would find it.
    """
    idle_looks = 0
    while True:
        sleep(_LOOK_EVERY_S)
        idle_looks = 0 if _is_wanted(folder, token) else idle_looks + 1
        if idle_looks >= _LOOKS_BEFORE_THE_END and _says_that_it_ends(folder, token):
            break
    end()


def _is_wanted(folder: StateFolder, token: str) -> bool:
    record = folder.read_record(SERVER)
    if record is None or record.token != token:
        return False
    return record.kept or not UsersLock(folder.users_lock).is_unused()


def _says_that_it_ends(folder: StateFolder, token: str) -> bool:
    try:
        with locked(folder.control_lock, limit_s=_LOOK_EVERY_S):
            if _is_wanted(folder, token):
                return False
            record = folder.read_record(SERVER)
            if record is not None and record.token == token:
                folder.write_record(msgspec.structs.replace(record, ending=True))
            return True
    except LockTimeout:
        # Somebody is at it: to use it or to stop it, which is no time to end by itself.
        return False


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
