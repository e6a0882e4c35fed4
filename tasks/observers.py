"""Who watches runs in this process: the terminal, tests. Told of the start, ticks and the end."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Protocol

from headrace.pull.receipts import Summary

if TYPE_CHECKING:
    from tasks.runs import Run


class Observer(Protocol):
    """Watches the runs of this process."""

    def started(self, run: Run) -> None:
        """A run has everything it needs and begins."""

    def ended(self, summary: Summary) -> None:
        """A run is over."""


_OBSERVERS: list[Observer] = []


@contextmanager
def observing(observer: Observer) -> Iterator[None]:
    """Have runs that start within the `with` block watched."""
    _OBSERVERS.append(observer)
    try:
        yield
    finally:
        _OBSERVERS.remove(observer)


def tell_started(run: Run) -> None:
    """Tell every observer that the run begins."""
    for observer in _OBSERVERS:
        observer.started(run)


def tell_ended(summary: Summary) -> None:
    """Tell every observer that the run is over."""
    for observer in _OBSERVERS:
        observer.ended(summary)
