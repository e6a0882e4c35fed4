"""What waits in this process: new requests, and those that are tried again, which go first."""

from __future__ import annotations

import heapq
import threading
import time
from collections import deque
from collections.abc import Callable, Sequence

from headrace.delivery.model import Pending
from headrace.stopping import StopEvent

_LOOK_S = 0.2


class RequestQueue:
    """A bounded queue. New requests wait in their order of arrival; retries pass them when due.

    `capacity` bounds what waits, retries among it: a producer waits for room, a worker that brings
    back a retry never does. As each worker has one request at most, no more than capacity plus
    workers are ever in memory.

    Args:
        capacity: how many may wait.
        stop: ends all waits.
        clock: monotonic seconds.
    """

    def __init__(
        self, capacity: int, stop: StopEvent, clock: Callable[[], float] = time.monotonic
    ) -> None:
        self.capacity = capacity
        self._stop = stop
        self._clock = clock
        self._new: deque[Pending] = deque()
        self._retries: list[tuple[float, int, Pending]] = []
        self._under_way = 0
        self._closed = False
        self._lock = threading.Lock()
        self._room = threading.Condition(self._lock)
        self._work = threading.Condition(self._lock)

    def __len__(self) -> int:
        """How many wait, retries among them."""
        return len(self._new) + len(self._retries)

    @property
    def retries(self) -> int:
        """How many wait to be tried again."""
        return len(self._retries)

    def wait_for_room(self) -> int:
        """Wait until something can be put in; return for how many there is room.

        Raises:
            Stopped: the stop was asked for.
        """
        with self._lock:
            while (room := self.capacity - len(self)) <= 0:
                self._stop.check()
                self._room.wait(_LOOK_S)
        self._stop.check()
        return room

    def put(self, pending: Sequence[Pending]) -> None:
        """Have requests wait behind all others."""
        with self._lock:
            self._new.extend(pending)
            self._work.notify(len(pending))

    def put_retry(self, pending: Pending, pause_s: float) -> None:
        """Bring back one that was taken; it goes ahead of new ones once `pause_s` is over."""
        with self._lock:
            heapq.heappush(self._retries, (self._clock() + pause_s, pending.id, pending))
            self._under_way -= 1
            self._work.notify()

    def take(self) -> Pending | None:
        """The next request, for a worker; None when all have ended and none will come.

        Raises:
            Stopped: the stop was asked for.
        """
        with self._lock:
            while True:
                self._stop.check()
                due_s = self._retries[0][0] - self._clock() if self._retries else None
                if due_s is not None and due_s <= 0:
                    taken = heapq.heappop(self._retries)[2]
                elif self._new:
                    taken = self._new.popleft()
                elif self._closed and not self._retries and not self._under_way:
                    return None
                else:
                    self._work.wait(min(_LOOK_S, due_s if due_s is not None else _LOOK_S))
                    continue
                self._under_way += 1
                self._room.notify()
                return taken

    def done(self) -> None:
        """One that was taken has ended."""
        with self._lock:
            self._under_way -= 1
            if self._closed:
                self._work.notify_all()

    def close(self) -> None:
        """No new ones will come."""
        with self._lock:
            self._closed = True
            self._work.notify_all()
