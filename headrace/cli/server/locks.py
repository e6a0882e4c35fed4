"""Who uses the managed server, counted by a lock that every user holds, shared.

A `flock` ends with its holder, however that dies: the count needs no pid and no time-out.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from headrace.locks import locked, open_lock, try_lock


class UsersLock:
    """Counts the users of something without a counter: each holds the same file, shared."""

    def __init__(self, path: Path) -> None:
        self._path = path

    @contextmanager
    def held(self) -> Iterator[None]:
        """Be a user until the block ends, or until this process dies.

        Raises:
            LockTimeout: a process that was stopped while it looked (see `is_unused`) keeps it.
        """
        with locked(self._path, shared=True):
            yield

    def is_unused(self) -> bool:
        """Tell whether no process is a user now."""
        with open_lock(self._path) as descriptor:
            # Another that asks the same at this very moment looks like a user; ask again.
            for _ in range(3):
                if try_lock(descriptor):
                    return True
                time.sleep(0.01)
            return False
