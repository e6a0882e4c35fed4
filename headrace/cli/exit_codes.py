"""How a command ends: exit codes, the line of an error, an end that does not wait for Prefect.

Prefect delivers events and logs from background services and, when the interpreter ends, waits
without a limit until they are done (`prefect._internal.concurrency.services`). With the API gone
each event is tried 11 times at a second each: minutes to hours. `bounded_exit` gives the same
services so many seconds to finish, and then ends the process.
"""

from __future__ import annotations

import logging
import os
import signal
import sys
import threading
from enum import IntEnum
from typing import TYPE_CHECKING, Any, NoReturn, cast

from headrace.errors import ConfigurationError, HeadraceError
from headrace.signals import EXIT_INTERRUPTED
from headrace.stopping import Stopped

if TYPE_CHECKING:
    from concurrent.futures import Future

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
    """One line about an error that no part of the project foresaw."""
    no_thread = isinstance(error, RuntimeError) and "thread" in str(error)
    if isinstance(error, MemoryError) or no_thread:
        what = "threads" if no_thread else "memory"
        return HeadraceError(f"the machine gives this process no more {what}", hint=LIMITS_HINT)
    words = " ".join(str(error).split())
    return HeadraceError(
        f"an error that was not foreseen: {type(error).__name__}: {words}",
        hint="--log-level debug shows where it happened; report it with that",
    )


_SERVICES = "prefect._internal.concurrency.services"
_SERVICE_LOGGERS = (
    "prefect._internal.concurrency",
    "prefect.events",
    "EventsWorker",
    "APILogWorker",
)


def drain(timeout_s: float) -> int | None:
    """Give Prefect's services up to `timeout_s` seconds to deliver events and logs.

    Afterwards they are stopped, delivered or not, and silent: what they could not deliver is
    counted here instead of logged there, item by item. Does nothing where Prefect is not imported.

    Returns:
        How many events and logs are left in the queues (what is under way is not counted); None if
        the services did not react.
    """
    left: list[int] = []
    # In a thread of its own: a service may hold its lock while it waits for the network.
    drainer = threading.Thread(target=lambda: left.append(_drain(timeout_s)), daemon=True)
    drainer.start()
    drainer.join(timeout_s + 1.0)
    return left[0] if left else None


def bounded_exit(code: int, *, drain_s: float = 5.0) -> NoReturn:
    """Deliver what can be delivered in `drain_s` seconds, then end the process at once.

    Nothing registered with `atexit` runs, and no thread is waited for: whatever has to be closed
    or written must be so by now. Writes to stderr what was left behind. A signal meanwhile ends the
    process at once: an exception would lead to the very wait that this is here to avoid.
    """
    if threading.current_thread() is threading.main_thread():
        for sign in (signal.SIGINT, signal.SIGTERM):
            signal.signal(sign, lambda _number, _frame: os._exit(EXIT_INTERRUPTED))
    left = drain(drain_s)
    if left != 0:
        sys.stderr.write(
            f"The Prefect API did not take {left or 'some'} events or logs within {drain_s:.0f} s: "
            "the UI will not show them. The data is not concerned.\n"
        )
    for stream in (sys.stdout, sys.stderr):
        try:
            stream.flush()
        except (OSError, ValueError):
            # The reader of the pipe has left.
            continue
    os._exit(code)


def _drain(timeout_s: float) -> int:
    from concurrent.futures import wait

    module = sys.modules.get(_SERVICES)
    services = [] if module is None else list(module._active_services)
    for name in _SERVICE_LOGGERS:
        logging.getLogger(name).setLevel(logging.CRITICAL + 1)
    pending = [(service, _asked_to_end(service)) for service in services]
    wait([done for _, done in pending], timeout=timeout_s)
    # The marker that ends a service stands in the queue too.
    return sum(max(1, s._queue.qsize() - 1) for s, done in pending if not done.done())


def _asked_to_end(service: Any) -> Future[bool]:
    import queue

    try:
        return cast("Future[bool]", service._drain(at_exit=True))
    except queue.Full:
        # A full queue has no room for the marker that ends the service: one event makes way.
        service._queue.get_nowait()
        service._queue.put_nowait(None)
        return cast("Future[bool]", service._drain(at_exit=True))
