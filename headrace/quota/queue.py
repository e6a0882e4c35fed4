"""The queue in front of the book: the threads of one process go through one at a time.

First in, first out within a lane. A better lane goes first, but no thread is passed more than
`MAX_PASSES` times in a row. A thread that goes through says how far ahead it has booked; the next
one of its lane goes through when that is near. So a process holds one booking beyond `ahead` per
lane, however many threads it has: that keeps processes even, lets a better lane in soon, and bounds
what a killed process leaves behind.

Coroutines wait in threads: what waits for a lock of another process cannot wait on a loop.
"""

from __future__ import annotations

import asyncio
import threading
from collections import deque
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import suppress
from typing import TypeVar

from headrace.quota.clock import NS
from headrace.quota.lanes import MAX_PASSES, Lane
from headrace.stopping import StopEvent

#: Those far back look up this often, should their own stop event be set; the head of the queue
#: sleeps on the event itself.
_LOOK_UP_S = 1.0


class ThreadQueue:
    """Lets threads through one at a time, in order.

    Args:
        now: the clock, in nanoseconds.
        ahead: how far ahead of its next permit a lane may book, in nanoseconds.
    """

    def __init__(self, now: Callable[[], int], ahead: int) -> None:
        self._now = now
        self._ahead = ahead
        self._mutex = threading.Lock()
        self._queues: list[deque[threading.Condition]] = [deque() for _ in Lane]
        self._passed_over = [0 for _ in Lane]
        self._booked_to = [0 for _ in Lane]
        self._busy = False

    def waiting(self) -> tuple[int, ...]:
        """How many threads stand in the queue, by lane."""
        return tuple(map(len, self._queues))

    def ahead_of(self, lane: Lane) -> tuple[int, int]:
        """How many would go before a newcomer in this lane, and how far it has booked."""
        return sum(map(len, self._queues[: lane + 1])), self._booked_to[lane]

    def try_enter(self, lane: Lane) -> bool:
        """Go through at once if the queue is empty; `leave` must follow if so."""
        with self._mutex:
            if self._busy or any(self._queues) or self._far(lane) > 0:
                return False
            self._busy = True
            return True

    def enter(
        self, lane: Lane, pause: Callable[[float], object], check: Callable[[], object]
    ) -> None:
        """Wait for the head of the queue; `leave` must follow.

        Args:
            lane: where to queue.
            pause: sleeps for so many seconds; raises to give up.
            check: called at least once a second while waiting; raises to give up.
        """
        with self._mutex:
            me = threading.Condition(self._mutex)
            self._queues[lane].append(me)
            try:
                while self._busy or self._head() is not me or (far := self._far(lane)) > 0:
                    check()
                    if self._busy or self._head() is not me:
                        me.wait(_LOOK_UP_S)
                    else:
                        self._pause_unlocked(pause, far)
            except BaseException:
                self._queues[lane].remove(me)
                self._call_next()
                raise
            self._go(lane)

    def leave(self, lane: Lane, booked_to: int) -> None:
        """Let the next one through.

        Args:
            lane: of the one who leaves.
            booked_to: when its permit goes out, in nanoseconds; 0 if it booked nothing.
        """
        with self._mutex:
            self._busy = False
            self._booked_to[lane] = max(self._booked_to[lane], booked_to)
            self._call_next()

    def _head(self) -> threading.Condition | None:
        lane = self._next_lane()
        return None if lane is None else self._queues[lane][0]

    def _next_lane(self) -> int | None:
        waiting = [lane for lane in Lane if self._queues[lane]]
        if not waiting:
            return None
        longest_passed_over = max(waiting, key=self._passed_over.__getitem__)
        if self._passed_over[longest_passed_over] >= MAX_PASSES:
            return longest_passed_over
        return waiting[0]

    def _far(self, lane: Lane) -> int:
        return self._booked_to[lane] - self._ahead - self._now()

    def _pause_unlocked(self, pause: Callable[[float], object], nanoseconds: int) -> None:
        self._mutex.release()
        try:
            pause(nanoseconds / NS)
        finally:
            self._mutex.acquire()

    def _go(self, lane: Lane) -> None:
        self._queues[lane].popleft()
        self._busy = True
        self._passed_over[lane] = 0
        for worse in Lane:
            if worse > lane and self._queues[worse]:
                self._passed_over[worse] += 1

    def _call_next(self) -> None:
        head = self._head()
        if head is not None:
            head.notify()


#: How many coroutines of a process can wait at once; more of them queue for a thread first.
_MOST = 64

T = TypeVar("T")


class WaitingThreads:
    """Threads of one session, made when a coroutine first asks for one."""

    def __init__(self) -> None:
        self._pool: ThreadPoolExecutor | None = None

    async def run(
        self, work: Callable[[StopEvent], T], undo: Callable[[T], object] | None = None
    ) -> T:
        """Run work that waits.

        When the task is cancelled, the work is called off; if it was done already, it is undone.
        """
        stop = StopEvent()
        job = self._threads().submit(work, stop)
        ending = asyncio.wrap_future(job)
        try:
            return await asyncio.shield(ending)
        except asyncio.CancelledError:
            stop.set()
            # One that still queues for a thread ends here, and does not wait for the queue.
            if not job.cancel():
                # In the thread, so that it is done whatever happens to this task.
                job.add_done_callback(lambda done: _undo(done, undo))
                # It was cancelled: the outcome of the work has no caller any more.
                with suppress(Exception):
                    await asyncio.shield(ending)
            raise

    def close(self) -> None:
        """Wait for the threads to end."""
        if self._pool is not None:
            self._pool.shutdown()

    def _threads(self) -> ThreadPoolExecutor:
        if self._pool is None:
            self._pool = ThreadPoolExecutor(_MOST, thread_name_prefix="quota-wait")
        return self._pool


def _undo(job: Future[T], undo: Callable[[T], object] | None) -> None:
    if undo is not None and job.exception() is None:
        undo(job.result())
