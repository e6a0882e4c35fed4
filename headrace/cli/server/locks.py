"""Two locks on files: one command at a time changes processes; who uses the server is counted.

Both are `flock` locks: the kernel gives them back when their holder dies, however it dies, so that
neither needs a pid, a time-out or a broom.
"""

from __future__ import annotations

import fcntl
import os
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from headrace.cli.server.exceptions import LockTimeoutError

_LOOK_EVERY_S = 0.05


@contextmanager
def exclusive(
    path: Path,
    *,
    timeout_s: float,
    sleep: Callable[[float], None] = time.sleep,
    monotonic: Callable[[], float] = time.monotonic,
) -> Iterator[None]:
    """Hold the file at `path` alone; wait for others up to `timeout_s` seconds.

    Raises:
        LockTimeoutError: somebody else kept it for longer.
    """
    descriptor = _open(path)
    try:
        since = monotonic()
        while not _try(descriptor, fcntl.LOCK_EX):
            if monotonic() - since > timeout_s:
                raise LockTimeoutError(path, timeout_s)
            sleep(_LOOK_EVERY_S)
        yield
    finally:
        os.close(descriptor)


class UsersLock:
    """Counts the users of something without a counter: each holds the same file, shared."""

    def __init__(self, path: Path) -> None:
        self._path = path

    @contextmanager
    def held(self) -> Iterator[None]:
        """Be a user until the block ends, or until this process dies."""
        descriptor = _open(self._path)
        try:
            # An exclusive holder only looks for a moment (see `is_unused`).
            fcntl.flock(descriptor, fcntl.LOCK_SH)
            yield
        finally:
            os.close(descriptor)

    def is_unused(self) -> bool:
        """Tell whether nobody, in any process, is a user now."""
        descriptor = _open(self._path)
        try:
            # Another that asks the same at this very moment looks like a user; ask again.
            for _ in range(3):
                if _try(descriptor, fcntl.LOCK_EX):
                    return True
                time.sleep(0.01)
            return False
        finally:
            os.close(descriptor)


def _open(path: Path) -> int:
    return os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)


def _try(descriptor: int, kind: int) -> bool:
    try:
        fcntl.flock(descriptor, kind | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True
