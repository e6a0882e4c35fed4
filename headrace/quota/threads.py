"""Coroutines wait in threads: what waits for a lock of another process cannot wait on a loop."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import suppress
from typing import TypeVar

from headrace.stopping import StopEvent

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
            # One that still queues for a thread ends here, and does not wait for its turn to end.
            if not job.cancel():
                # In the thread, so that it is done whatever else befalls this task.
                job.add_done_callback(lambda done: _undone(done, undo))
                # It was cancelled: whatever the work has to say is no answer to anybody.
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


def _undone(job: Future[T], undo: Callable[[T], object] | None) -> None:
    if undo is not None and job.exception() is None:
        undo(job.result())
