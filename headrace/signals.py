"""Ending on SIGINT and SIGTERM: what is complete is kept, and the end comes in time.

A signal's handler runs between two instructions of the main thread, which may hold any lock just
then: that of an event it is about to wait for, of a queue, of a logger. A handler that wants the
same lock waits for ever. So the handler only puts the signal's number into a queue that is made for
it, and a thread does the rest.
"""

from __future__ import annotations

import logging
import os
import queue
import signal
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import FrameType

from headrace.stopping import STOP, StopEvent

log = logging.getLogger(__name__)

EXIT_INTERRUPTED = 130

#: How long a run that was asked to end may take; who sends SIGTERM often sends SIGKILL 10 s later.
GRACE_S = 7.0

#: How long a process that has nothing to complete may take to give back what it holds.
GIVE_BACK_S = 3.0

_SIGNALS = (signal.SIGINT, signal.SIGTERM)


@contextmanager
def leave_on_signals(give_back: Callable[[], None]) -> Iterator[None]:
    """Have SIGINT and SIGTERM run `give_back` and end the process; a second one ends it at once.

    For what surrounds a run, such as the loading of its modules: an exception raised by a handler
    there may be swallowed by the import system, or turned into another. Unlike `stop_on_signals`,
    whose handlers come before these in its block, there is nothing to be completed.

    Args:
        give_back: what others would wait for otherwise; gets `GIVE_BACK_S`.
    """

    def leave(_number: int) -> None:
        giving = threading.Thread(target=give_back, name="headrace-give-back", daemon=True)
        giving.start()
        giving.join(GIVE_BACK_S)
        os._exit(EXIT_INTERRUPTED)

    with _on_first_signal(leave):
        yield


@contextmanager
def stop_on_signals() -> Iterator[StopEvent]:
    """A stop event that the first SIGINT or SIGTERM sets; a second one ends the process at once.

    So does the time: what has not ended `GRACE_S` after the first signal hangs in a call that looks
    at nothing, and a kill harms nothing. Only the main thread may set handlers; elsewhere the event
    is set with the process's own.
    """
    stop = STOP.child()
    if threading.current_thread() is not threading.main_thread():
        yield stop
        return
    over = threading.Event()

    def end_in_time(number: int) -> None:
        stop.set()
        log.warning("%s: keeping what is complete, then ending", signal.Signals(number).name)
        if not over.wait(GRACE_S):
            sys.stderr.write(f"headrace: no end within {GRACE_S:g} s; the lake has all it took\n")
            os._exit(EXIT_INTERRUPTED)

    with _on_first_signal(end_in_time):
        try:
            yield stop
        finally:
            over.set()


@contextmanager
def _on_first_signal(react: Callable[[int], None]) -> Iterator[None]:
    """Have a thread react to the first signal of a `with` block; a second one ends the process."""
    # Its `put` is re-entrant, unlike that of any other queue.
    received: queue.SimpleQueue[int] = queue.SimpleQueue()
    asked = False

    def on_signal(number: int, _frame: FrameType | None) -> None:
        nonlocal asked
        if asked:
            os._exit(EXIT_INTERRUPTED)
        asked = True
        received.put(number)

    def wait() -> None:
        if number := received.get():
            react(number)

    # Started now, since a thread cannot safely be started from a signal handler.
    threading.Thread(target=wait, name="headrace-signals", daemon=True).start()
    before = {sign: signal.signal(sign, on_signal) for sign in _SIGNALS}
    try:
        yield
    finally:
        for sign, handler in before.items():
            signal.signal(sign, handler)
        received.put(0)
