"""Tells others soon when a permit left, where this process itself would only tell them late."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable

from headrace.quota.exceptions import QuotaUnavailable

log = logging.getLogger(__name__)

#: A thread with nothing to do ends after so many seconds.
_IDLE_S = 10.0


class Settler:
    """A thread that writes what has settled, a moment after it was asked to.

    Never at once: the caller has just got its permit, and should be on its way before this process
    queues for the file again.

    Args:
        flush: writes what has settled.
        delay_s: the moment.
    """

    def __init__(self, flush: Callable[[], object], delay_s: float) -> None:
        self._flush = flush
        self._delay_s = delay_s
        self._mutex = threading.Lock()
        self._asked = threading.Event()
        self._closed = threading.Event()
        self._thread: threading.Thread | None = None

    def soon(self) -> None:
        """Have it written in a moment."""
        if self._asked.is_set():
            return
        with self._mutex:
            self._asked.set()
            if self._thread is None and not self._closed.is_set():
                self._thread = threading.Thread(
                    target=self._run, name="headrace-quota-settler", daemon=True
                )
                self._thread.start()

    def close(self) -> None:
        """End the thread; what has not been written is the caller's to write."""
        with self._mutex:
            self._closed.set()
            self._asked.set()
            thread = self._thread
        if thread is not None:
            thread.join()

    def _run(self) -> None:
        while self._await():
            self._closed.wait(self._delay_s)
            self._asked.clear()
            try:
                self._flush()
            except QuotaUnavailable as error:
                # Whoever asks for the next permit meets the same fault, and can be told.
                log.debug("not settled: %s", error)

    def _await(self) -> bool:
        """Wait to be asked; False when this thread should end."""
        self._asked.wait(_IDLE_S)
        with self._mutex:
            if self._closed.is_set() or not self._asked.is_set():
                self._thread = None
                return False
            return True
