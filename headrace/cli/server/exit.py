"""An end of the process that does not wait for a Prefect API which is gone.

Prefect delivers events and logs from background services and, when the interpreter ends, waits
without a limit until they are done (`prefect._internal.concurrency.services`). With the API gone
each event is tried 11 times at a second each: minutes to hours. Here the same services are asked
to finish, for so many seconds and not longer, and then the process ends.
"""

from __future__ import annotations

import logging
import os
import queue
import signal
import sys
import threading
from concurrent.futures import Future, wait
from typing import Any, NoReturn, cast

from headrace.signals import EXIT_INTERRUPTED

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
        the services did not even let themselves be asked.
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
    or written must be so by now. Says on stderr what was left behind. A signal meanwhile ends the
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
            # The reader of the pipe has left; there is nobody to tell.
            continue
    os._exit(code)


def _drain(timeout_s: float) -> int:
    module = sys.modules.get(_SERVICES)
    services = [] if module is None else list(module._active_services)
    for name in _SERVICE_LOGGERS:
        logging.getLogger(name).setLevel(logging.CRITICAL + 1)
    pending = [(service, _asked_to_end(service)) for service in services]
    wait([done for _, done in pending], timeout=timeout_s)
    # The marker that ends a service stands in the queue too.
    return sum(max(1, s._queue.qsize() - 1) for s, done in pending if not done.done())


def _asked_to_end(service: Any) -> Future[bool]:
    try:
        return cast("Future[bool]", service._drain(at_exit=True))
    except queue.Full:
        # A full queue has no room for the marker that ends the service: one event makes way.
        service._queue.get_nowait()
        service._queue.put_nowait(None)
        return cast("Future[bool]", service._drain(at_exit=True))
