"""Several processes in one, each advanced by so many of its operations at a time.

A body runs in a thread of its own and stops before everything it does to the world outside (a
store, a lease, a checkpoint, the exchange). Only one thread runs at any moment, so a schedule is
a list of numbers, and the same list gives the same run.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Future
from typing import Any


class Killed(BaseException):
    """The process is dead: nothing that it still does has an effect."""


class Stepper:
    """A body that is led through its operations by the code that holds it.

    `ahead` names the operation that it stands before.

    Args:
        body: what to run; it calls `pause` before each operation.
    """

    def __init__(self, body: Callable[[], None]) -> None:
        self._body = body
        self._go = threading.Semaphore(0)
        self._parked = threading.Semaphore(0)
        self._error: BaseException | None = None
        self.thread = threading.Thread(target=self._run, daemon=True)
        self.done = False
        self.killed = False
        self.ahead = ""
        self.thread.start()

    def pause(self, operation: str) -> None:
        """Wait for one's turn; from any other thread than the body's this is no operation."""
        if self.killed:
            raise Killed
        if threading.current_thread() is not self.thread:
            return
        self.ahead = operation
        self._parked.release()
        self._go.acquire()
        if self.killed:
            raise Killed

    def advance(self, operations: int) -> None:
        """Let the body do so many operations, or what is left; its error is raised here."""
        for _ in range(operations):
            if self.done:
                break
            self._turn()
        if self._error is not None:
            error, self._error = self._error, None
            raise error

    def advance_to(self, operation: str) -> None:
        """Let the body go on until it stands before the next such operation, or has ended."""
        self.advance(1)
        while not self.done and self.ahead != operation:
            self.advance(1)

    def kill(self) -> None:
        """End the body where it stands."""
        self.killed = True
        if not self.done:
            self._turn()

    def _turn(self) -> None:
        self._go.release()
        if not self._parked.acquire(timeout=60):
            raise RuntimeError("a body waits for something that is none of its operations")

    def _run(self) -> None:
        self._go.acquire()
        try:
            if not self.killed:
                self._body()
        except Killed:
            self.killed = True
        except BaseException as error:  # noqa: BLE001 - it is raised where the body is led
            self._error = error
        self.done = True
        self._parked.release()


class InlineExecutor:
    """In the place of a thread pool: the calls are made one after the other, by the caller."""

    def __init__(self, *_args: Any, **_options: Any) -> None:
        pass

    def __enter__(self) -> InlineExecutor:
        return self

    def __exit__(self, *_error: object) -> None:
        pass

    def submit(self, call: Callable[..., Any], *args: Any, **options: Any) -> Future[Any]:
        future: Future[Any] = Future()
        try:
            future.set_result(call(*args, **options))
        except Exception as error:  # noqa: BLE001 - a future hands on whatever it was
            future.set_exception(error)
        return future

    def map(self, call: Callable[..., Any], items: Iterable[Any]) -> Iterator[Any]:
        return map(call, items)
