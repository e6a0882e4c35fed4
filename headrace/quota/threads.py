"""Coroutines wait in threads: what waits for a lock of another process cannot wait on a loop."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from typing import TypeVar

from headrace.stopping import StopEvent, Stopped

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
        future = asyncio.get_running_loop().run_in_executor(self._threads(), work, stop)
        try:
            return await asyncio.shield(future)
        except asyncio.CancelledError:
            stop.set()
            with suppress(Stopped):
                result = await future
                if undo is not None:
                    undo(result)
            raise

    def close(self) -> None:
        """Wait for the threads to end."""
        if self._pool is not None:
            self._pool.shutdown()

    def _threads(self) -> ThreadPoolExecutor:
        if self._pool is None:
            self._pool = ThreadPoolExecutor(_MOST, thread_name_prefix="quota-wait")
        return self._pool
