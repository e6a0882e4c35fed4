"""What the gate has done in this process."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Literal

from headrace.quota.clock import NS

Cause = Literal["quota", "breaker"]


class Counters:
    """Counts of one process since its gate was opened.

    Attributes:
        admitted: permits given.
        throttled: answers 429.
        waited_s: seconds spent waiting, summed over all threads, by cause.
    """

    def __init__(self) -> None:
        self.admitted = 0
        self.throttled = 0
        self.waited_s: dict[Cause, float] = {"quota": 0.0, "breaker": 0.0}
        self._now_waiting: dict[Cause, int] = {"quota": 0, "breaker": 0}
        self._mutex = threading.Lock()

    def count(self, *, admitted: int = 0, throttled: int = 0) -> None:
        """Add to the counts."""
        with self._mutex:
            self.admitted += admitted
            self.throttled += throttled

    @contextmanager
    def waiting(self, cause: Cause, now: Callable[[], int]) -> Iterator[None]:
        """Account for a wait."""
        began = now()
        with self._mutex:
            self._now_waiting[cause] += 1
        try:
            yield
        finally:
            waited = now() - began
            with self._mutex:
                self._now_waiting[cause] -= 1
                self.waited_s[cause] += waited / NS

    def waiting_for(self) -> Cause | None:
        """What threads of this process wait for at this moment, the breaker first."""
        if self._now_waiting["breaker"]:
            return "breaker"
        return "quota" if self._now_waiting["quota"] else None
