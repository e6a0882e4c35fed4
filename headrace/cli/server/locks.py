"""Two locks on files: one command at a time changes processes; who uses the server is counted.

Both are `flock` locks: the kernel gives them back when their holder dies, however it dies, so that
neither needs a pid, a time-out or a broom.
"""

from __future__ import annotations

import fcntl
import logging
import os
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from headrace.cli.server.exceptions import LockTimeoutError

_log = logging.getLogger(__name__)

_LOOK_EVERY_S = 0.05
# A command that starts or stops a server holds the lock for some seconds; longer is worth a line.
_SAY_AFTER_S = 5.0


@contextmanager
def exclusive(
    path: Path,
    *,
    timeout_s: float,
    sleep: Callable[[float], None] = time.sleep,
    monotonic: Callable[[], float] = time.monotonic,
) -> Iterator[None]:
    """Hold the file at `path` alone; wait for others up to `timeout_s` seconds.

    A wait of more than five seconds is logged once, with the holder and whether it is frozen.

    Raises:
        LockTimeoutError: another process kept it for longer.
    """
    descriptor = _open(path)
    try:
        since = monotonic()
        said = False
        while not _try(descriptor, fcntl.LOCK_EX):
            waited_s = monotonic() - since
            if waited_s > timeout_s:
                raise LockTimeoutError(path, timeout_s, holder=_holder(descriptor))
            if waited_s > _SAY_AFTER_S and not said:
                said = True
                _log.warning("waiting for %s, held by %s", path, _holder(descriptor))
            sleep(_LOOK_EVERY_S)
        # For the messages of those who wait; the lock itself is the kernel's.
        os.ftruncate(descriptor, 0)
        os.pwrite(descriptor, f"{os.getpid()}\n".encode(), 0)
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


def _holder(descriptor: int) -> str:
    """The process that wrote its id into the locked file, and whether it is frozen."""
    pid = os.pread(descriptor, 32, 0).decode(errors="replace").strip()
    if not pid.isdecimal():
        return "another headrace command"
    try:
        status = Path("/proc", pid, "stat").read_text(errors="replace")
    except OSError:
        return f"pid {pid}"
    # The command may hold brackets: the state follows the last one.
    frozen = status.rpartition(")")[2].split()[0] in ("T", "t")
    return f"pid {pid}, which is frozen (`kill -CONT {pid}` wakes it)" if frozen else f"pid {pid}"


def _open(path: Path) -> int:
    return os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)


def _try(descriptor: int, kind: int) -> bool:
    try:
        fcntl.flock(descriptor, kind | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True
