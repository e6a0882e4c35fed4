"""How far a run is: what every pipeline's counters can say, for terminals and the UI."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Protocol

from headrace.amounts import duration
from headrace.run.report import Status


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
class PartProgress:
    """The counters of one part of a run, such as a product.

    Attributes:
        name: of the part.
        state: a word for people (planning, fetching, done, ...).
        done, total: pages or items that came, and how many there are as far as is known.
        rows: what they hold, where that is counted.
        failed: those that did not come.
        began_s, ended_s: readings of the run's clock; 0 before.
        note: what ended it early.
    """

    name: str
    state: str = "waiting"
    done: int = 0
    total: int = 0
    rows: int = 0
    failed: int = 0
    began_s: float = 0.0
    ended_s: float = 0.0
    note: str = ""

    @property
    def is_done(self) -> bool:
        """Whether it came to a good end."""
        return self.state == Status.DONE.value

    def per_s(self, now_s: float) -> float:
        """Pages or items a second since it was begun."""
        if not self.began_s:
            return 0.0
        return self.done / max((self.ended_s or now_s) - self.began_s, 0.001)

    def left_s(self, now_s: float) -> float | None:
        """Seconds left at the speed so far; None if nothing is known."""
        speed = self.per_s(now_s)
        if self.ended_s or not speed or self.total <= self.done:
            return None
        return (self.total - self.done) / speed


@dataclass(slots=True)
class RunProgress:
    """The parts of a run, each with counters of its own. Safe between threads.

    Args:
        unit: what is counted, in the plural.
        rows_of: what a unit holds, in the plural; empty if that is not counted.
        paced: whether a unit is a request, so that the quota says how long it takes. If not, each
            part has its own speed.
        places: of the pools, together.
        clock: seconds.
        waiting_for: what requests wait for just now. While it is the breaker, nothing is known of
            the time left.
    """

    unit: str
    rows_of: str = ""
    paced: bool = False
    places: int = 1
    clock: Callable[[], float] = time.monotonic
    waiting_for: Callable[[], str | None] = lambda: None
    parts: dict[str, PartProgress] = field(default_factory=dict)
    started: float = 0.0
    _busy_s: float = 0.0
    _lock: threading.Lock = field(default_factory=threading.Lock)

    def __post_init__(self) -> None:
        self.started = self.clock()

    def part(self, name: str) -> PartProgress:
        """The part's counters, made at the first call."""
        with self._lock:
            return self.parts.setdefault(name, PartProgress(name))

    def begin(self, name: str, state: str, total: int | None = None) -> None:
        """The part is at a new stage."""
        entry = self.part(name)
        with self._lock:
            entry.began_s = entry.began_s or self.clock()
            entry.state = state
            if total is not None:
                entry.total = total

    def add(self, name: str, *, done: int = 0, rows: int = 0, failed: int = 0) -> None:
        """More of the part came, or failed."""
        entry = self.part(name)
        with self._lock:
            entry.done += done
            entry.rows += rows
            entry.failed += failed

    def end(self, name: str, state: str, note: str = "") -> None:
        """The part will not change any more."""
        entry = self.part(name)
        with self._lock:
            entry.state, entry.note, entry.ended_s = state, note, self.clock()
            if entry.is_done:
                # The plan counted ids; where some were never traded, fewer pages hold the rest.
                entry.total = entry.done

    def busy(self, seconds: float) -> None:
        """One place of a pool was busy for so long."""
        with self._lock:
            self._busy_s += seconds

    @property
    def pool_use(self) -> float:
        """Share of the pools' places that were busy since the start, 0 to 1."""
        elapsed = (self.clock() - self.started) * self.places
        return min(1.0, self._busy_s / elapsed) if elapsed > 0 else 0.0

    def totals(self) -> tuple[int, int, int]:
        """(done, total, rows) of all parts."""
        entries = self._entries()
        return (
            sum(entry.done for entry in entries),
            sum(max(entry.done, entry.total) for entry in entries),
            sum(entry.rows for entry in entries),
        )

    def eta_s(self, per_s: float | None) -> float | None:
        """Seconds left at the speed seen so far, and at most at the quota's where that counts."""
        done, total, _rows = self.totals()
        elapsed = self.clock() - self.started
        seen = done / elapsed if elapsed > 1 and done else None
        rate = min((r for r in (per_s if self.paced else None, seen) if r), default=None)
        return None if not rate or self._in_outage() else (total - done) / rate

    def percent(self) -> float:
        """Done of the total. A part that has ended well is done, whatever was planned."""
        entries = self._entries()
        total = sum(max(1, entry.total) for entry in entries)
        done = sum(
            max(1, entry.total) if entry.is_done else min(entry.done, entry.total)
            for entry in entries
        )
        return 100.0 * done / total if total else 0.0

    def described(self) -> str:
        """What all wait for in an outage; of each part what came, its speed, and its state."""
        parts = ["waiting for the breaker"] if self._in_outage() else []
        for entry in self._entries():
            words = [self._count(entry), *filter(None, self._speed(entry)), entry.state]
            parts.append(f"{entry.name}: {', '.join(words)}")
        return "; ".join(parts) or "planning"

    def so_far(self) -> str:
        """What came of all that is planned; rows are stored or about to be."""
        done, total, rows = self.totals()
        fetched = f", {rows:,} {self.rows_of} fetched" if self.rows_of else ""
        return f"{done:,}/{total:,} {self.unit}{fetched}"

    def bars(self) -> list[Bar]:
        """One per part."""
        return [
            Bar(
                entry.name,
                1.0 if entry.is_done else entry.done / max(entry.done, entry.total, 1),
                (
                    self._count(entry),
                    *([f"{entry.rows:,} {self.rows_of}"] if self.rows_of else []),
                    *self._speed(entry),
                ),
                entry.state,
            )
            for entry in self._entries()
        ]

    def _entries(self) -> list[PartProgress]:
        with self._lock:
            return list(self.parts.values())

    def _in_outage(self) -> bool:
        return self.waiting_for() == "breaker"

    def _count(self, entry: PartProgress) -> str:
        return f"{entry.done:,}/{max(entry.done, entry.total):,} {self.unit}"

    def _speed(self, entry: PartProgress) -> list[str]:
        if self.paced:
            return []
        now_s = self.clock()
        left_s = None if self._in_outage() else entry.left_s(now_s)
        left = "" if left_s is None else f"{duration(left_s)} left"
        return [f"{entry.per_s(now_s):,.1f}/s", left]


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
