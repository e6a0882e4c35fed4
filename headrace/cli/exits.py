"""Exit codes, and which outcome means which."""

from __future__ import annotations

from enum import IntEnum

from headrace.errors import ConfigurationError, HeadraceError
from headrace.leases import LeaseHeld
from headrace.run.report import Report, Status
from headrace.stopping import Stopped


class Exit(IntEnum):
    """What a command's exit code says."""

    DONE = 0
    FAILED = 1
    USAGE = 2
    RUNNING_ELSEWHERE = 3
    PARTIAL = 4
    INTERRUPTED = 130


_BY_STATUS = {
    Status.DONE: Exit.DONE,
    Status.PARTIAL: Exit.PARTIAL,
    Status.FAILED: Exit.FAILED,
    Status.RUNNING_ELSEWHERE: Exit.RUNNING_ELSEWHERE,
}


def exit_of_report(report: Report) -> Exit:
    """The exit code of a run that came to its end."""
    return Exit.INTERRUPTED if report.stopped else exit_of_status(report.status)


def exit_of_status(status: Status) -> Exit:
    """The exit code of a command that ended with this status."""
    return _BY_STATUS[status]


def exit_of_error(error: HeadraceError) -> Exit:
    """The exit code of a command that ended with an error."""
    if isinstance(error, ConfigurationError):
        return Exit.USAGE
    if isinstance(error, LeaseHeld):
        return Exit.RUNNING_ELSEWHERE
    if isinstance(error, Stopped):
        return Exit.INTERRUPTED
    return Exit.FAILED
