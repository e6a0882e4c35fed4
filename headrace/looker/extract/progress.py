"""What an extraction shows while it runs: counters per type that workers raise, as metrics too."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from dataclasses import dataclass, field

from headrace.looker.extract.report import ExtractSummary
from headrace.metrics import catalogue as names
from headrace.metrics.meter import Meter
from headrace.metrics.requests import RequestMetrics
from headrace.quota.feedback import Cause
from headrace.run.progress import Bar
from headrace.run.report import duration


@dataclass(slots=True)
class TypeProgress:
    """One type's counters; `state` is a word for people.

    `expected` is how many items there are to fetch, as far as is known: from the listing itself,
    or, until that has ended, from what the vault holds already.
    """

    type: str
    state: str = "waiting"
    items: int = 0
    expected: int = 0
    failed: int = 0
    began_s: float = 0.0
    ended_s: float = 0.0
    note: str = ""

    def per_s(self, now_s: float) -> float:
        """Items a second since the type was begun."""
        if not self.began_s:
            return 0.0
        return self.items / max((self.ended_s or now_s) - self.began_s, 0.001)

    def eta_s(self, now_s: float) -> float | None:
        """Seconds left at the speed so far; None if nothing is known."""
        speed = self.per_s(now_s)
        if self.ended_s or not speed or self.expected <= self.items:
            return None
        return (self.expected - self.items) / speed


@dataclass(slots=True)
class ExtractProgress:
    """All types' counters of a run. Safe between threads.

    Args:
        clock: seconds.
        waiting_for: what requests wait for just now. While it is the breaker, nothing is known of
            the time left.
    """

    clock: Callable[[], float] = time.monotonic
    waiting_for: Callable[[], Cause | None] = lambda: None
    types: dict[str, TypeProgress] = field(default_factory=dict)
    started: float = 0.0
    _lock: threading.Lock = field(default_factory=threading.Lock)

    def __post_init__(self) -> None:
        self.started = self.clock()

    def type(self, name: str) -> TypeProgress:
        """The type's counters, made at the first call."""
        with self._lock:
            return self.types.setdefault(name, TypeProgress(name))

    def begin(self, name: str, state: str, expected: int | None = None) -> None:
        """The type is at a new stage."""
        entry = self.type(name)
        with self._lock:
            entry.began_s = entry.began_s or self.clock()
            entry.state = state
            if expected is not None:
                entry.expected = expected

    def add(self, name: str, *, items: int = 0, failed: int = 0) -> None:
        """More items of the type are in the vault, or failed."""
        entry = self.type(name)
        with self._lock:
            entry.items += items
            entry.failed += failed

    def end(self, name: str, state: str, note: str = "") -> None:
        """The type will not change any more."""
        entry = self.type(name)
        with self._lock:
            entry.state, entry.note, entry.ended_s = state, note, self.clock()

    def totals(self) -> tuple[int, int]:
        """(items that came, items expected) of all types."""
        with self._lock:
            entries = list(self.types.values())
        return (
            sum(entry.items for entry in entries),
            sum(max(entry.expected, entry.items) for entry in entries),
        )

    def eta_s(self, per_s: float | None = None) -> float | None:  # noqa: ARG002 - as `Progress`
        """Seconds left for all types at the speed so far; requests are not items."""
        items, expected = self.totals()
        elapsed = self.clock() - self.started
        if not items or elapsed <= 1 or expected <= items or self._away():
            return None
        return (expected - items) / (items / elapsed)

    def percent(self) -> float:
        """Items that came of those expected."""
        items, expected = self.totals()
        return 100.0 * items / expected if expected else 0.0

    def described(self) -> str:
        """What all wait for in an outage; of each type: items, speed, time left, state."""
        now_s, away = self.clock(), self._away()
        parts = ["waiting for the breaker"] if away else []
        for entry in list(self.types.values()):
            of = f"/{entry.expected:,}" if entry.expected > entry.items else ""
            eta_s = None if away else entry.eta_s(now_s)
            left = f", {duration(eta_s)} left" if eta_s is not None else ""
            parts.append(
                f"{entry.type}: {entry.items:,}{of} items, {entry.per_s(now_s):,.1f}/s{left}, "
                f"{entry.state}"
            )
        return "; ".join(parts) or "beginning"

    def _away(self) -> bool:
        return self.waiting_for() == "breaker"

    def so_far(self) -> str:
        """Items of those expected."""
        items, expected = self.totals()
        return f"{items:,}/{expected:,} items"

    def bars(self) -> list[Bar]:
        """One per content type."""
        now_s, away = self.clock(), self._away()
        bars = []
        for entry in list(self.types.values()):
            total = max(entry.expected, entry.items, 1)
            eta_s = None if away else entry.eta_s(now_s)
            texts = (
                f"{entry.items:,} items",
                f"{entry.per_s(now_s):,.0f}/s",
                f"{duration(eta_s)} left" if eta_s is not None else "",
            )
            share = 1.0 if entry.ended_s else entry.items / total
            bars.append(Bar(entry.type, share, texts, entry.state))
        return bars


class ExtractMetrics:
    """Feeds a meter from one extraction; a content type is what a product is elsewhere.

    Args:
        meter: takes the metrics.
        source: host of the Looker.
        requests: the metrics of the run's client.
        progress: sampled for the items that came.
    """

    def __init__(
        self, meter: Meter, *, source: str, requests: RequestMetrics, progress: ExtractProgress
    ) -> None:
        self._meter = meter
        self._source = source
        self._requests = requests
        self._progress = progress
        meter.sampled(self._sample)

    def ended(self, summary: ExtractSummary) -> None:
        """Take what only the end knows."""
        self._requests.ended("stopped" if summary.stopped else summary.status.value)
        for receipt in summary.types:
            self._meter.set(
                names.MISSING, len(receipt.failures), source=self._source, product=receipt.type
            )

    def _sample(self) -> None:
        for type_, entry in list(self._progress.types.items()):
            self._meter.count_to(names.ROWS, entry.items, source=self._source, product=type_)
