"""Exit codes, and which outcome means which."""

from __future__ import annotations

from enum import IntEnum
from typing import TYPE_CHECKING

from headrace.errors import ConfigurationError, HeadraceError
from headrace.stopping import Stopped

if TYPE_CHECKING:
    from headrace.run.report import Report, Status


class Exit(IntEnum):
    """What a command's exit code says."""

    DONE = 0
    FAILED = 1
    USAGE = 2
    RUNNING_ELSEWHERE = 3
    PARTIAL = 4
    INTERRUPTED = 130


def exit_of_report(report: Report) -> Exit:
    """The exit code of a run that came to its end."""
    return Exit.INTERRUPTED if report.stopped else exit_of_status(report.status)


def exit_of_status(status: Status) -> Exit:
    """The exit code of a command that ended with this status."""
    return Exit[status.name]


def exit_of_error(error: HeadraceError) -> Exit:
    """The exit code of a command that ended with an error."""
    # Importing it takes time that help and completion have not got.
    from headrace.leases import LeaseHeld

    if isinstance(error, ConfigurationError):
        return Exit.USAGE
    if isinstance(error, LeaseHeld):
        return Exit.RUNNING_ELSEWHERE
    if isinstance(error, Stopped):
        return Exit.INTERRUPTED
    return Exit.FAILED


#: What to do where the operating system refuses memory, files or threads.
LIMITS_HINT = "Look at ulimit -a and at the limits of the container; fewer --workers need less"


def unforeseen(error: BaseException) -> HeadraceError:
    """One line about an error that nothing has a name for."""
    no_thread = isinstance(error, RuntimeError) and "thread" in str(error)
    if isinstance(error, MemoryError) or no_thread:
        what = "threads" if no_thread else "memory"
        return HeadraceError(f"the machine gives this process no more {what}", hint=LIMITS_HINT)
    words = " ".join(str(error).split())
    return HeadraceError(
        f"an error that was not foreseen: {type(error).__name__}: {words}",
        hint="--log-level debug shows where it happened; report it with that",
    )
