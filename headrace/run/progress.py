"""How far a run is: what every pipeline's counters can say, for terminals and the UI."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Protocol


@dataclass(frozen=True, slots=True)
class Bar:
    """One part of a run (a product, a content type) on a terminal.

    Attributes:
        name: of the part.
        share: of it that is done, 0 to 1; None if its end is not known.
        texts: its counters in words.
        state: a word for people (planning, fetching, done, ...).
    """

    name: str
    share: float | None
    texts: tuple[str, ...]
    state: str


class Progress(Protocol):
    """A run's counters; safe to read while workers raise them."""

    @property
    def clock(self) -> Callable[[], float]:
        """Seconds; `started` is a reading of it."""

    @property
    def started(self) -> float:
        """When the run began."""

    def percent(self) -> float:
        """0 to 100; 0 for work without a known end."""

    def described(self) -> str:
        """In words, part by part."""

    def so_far(self) -> str:
        """The whole of it in words."""

    def bars(self) -> Sequence[Bar]:
        """Part by part."""

    def eta_s(self, per_s: float | None) -> float | None:
        """Seconds left at the speed seen so far, and at most at `per_s`; None if not known."""


@dataclass(slots=True)
class StepProgress:
    """The parts of a run, each done in one step. Safe between threads.

    Args:
        unit: what the parts are called, in the plural.
        parts: how many there are, as far as is known.
    """

    unit: str
    parts: int
    clock: Callable[[], float] = time.monotonic
    started: float = 0.0
    done: int = 0
    _lock: threading.Lock = field(default_factory=threading.Lock)

    def __post_init__(self) -> None:
        self.started = self.clock()

    def step(self) -> None:
        """One more part is done."""
        with self._lock:
            self.done += 1

    def percent(self) -> float:
        """Parts done of all."""
        return 100.0 * self.done / self.parts if self.parts else 0.0

    def described(self) -> str:
        """The whole of it in words."""
        return f"{self.done:,}/{self.parts:,} {self.unit}"

    so_far = described

    def bars(self) -> list[Bar]:
        """One for all parts: there may be hundreds, and each is short."""
        return [Bar(self.unit, self.done / max(self.parts, 1), (self.described(),), "")]

    def eta_s(self, per_s: float | None) -> float | None:  # noqa: ARG002 - as `Progress`
        """Seconds left at the speed seen so far."""
        elapsed_s = self.clock() - self.started
        if not self.done or elapsed_s <= 1:
            return None
        return (self.parts - self.done) * elapsed_s / self.done
