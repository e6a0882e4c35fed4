"""What a run shows while it runs: counters that workers raise and displays read."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from dataclasses import dataclass, field

from headrace.run.progress import Bar
from headrace.run.report import Status


@dataclass(slots=True)
class ProductProgress:
    """One product's counters; `state` is a word for people (planning, fetching, done, ...)."""

    product: str
    state: str = "waiting"
    pages_done: int = 0
    pages_total: int = 0
    rows: int = 0
    busy: int = 0
    note: str = ""


@dataclass(slots=True)
class RunProgress:
    """All products' counters of a run, and how busy its pools were. Safe between threads."""

    in_flight: int
    clock: Callable[[], float] = time.monotonic
    products: dict[str, ProductProgress] = field(default_factory=dict)
    started: float = 0.0
    _busy_s: float = 0.0
    _lock: threading.Lock = field(default_factory=threading.Lock)

    def __post_init__(self) -> None:
        self.started = self.clock()

    def product(self, product: str) -> ProductProgress:
        """The product's counters, made at the first call."""
        with self._lock:
            return self.products.setdefault(product, ProductProgress(product))

    def planned(self, product: str, pages: int) -> None:
        """The product's plan is made."""
        entry = self.product(product)
        with self._lock:
            entry.pages_total = pages
            entry.state = "fetching"

    def page(self, product: str, rows: int) -> None:
        """One more page of the product is here."""
        entry = self.product(product)
        with self._lock:
            entry.pages_done += 1
            entry.rows += rows

    def ended(self, product: str, state: str, note: str = "") -> None:
        """The product will not change any more."""
        entry = self.product(product)
        with self._lock:
            entry.state = state
            entry.note = note
            if state == "done":
                # The plan counted ids; where some were never traded, fewer pages hold the rest.
                entry.pages_total = entry.pages_done

    def busy(self, seconds: float) -> None:
        """One place of a pool was busy for so long."""
        with self._lock:
            self._busy_s += seconds

    @property
    def pool_use(self) -> float:
        """Share of the pools' places that were busy since the start, 0 to 1."""
        elapsed = (self.clock() - self.started) * self.in_flight
        return min(1.0, self._busy_s / elapsed) if elapsed > 0 else 0.0

    def totals(self) -> tuple[int, int, int]:
        """(pages done, pages planned, rows) of all products."""
        with self._lock:
            entries = list(self.products.values())
            return (
                sum(entry.pages_done for entry in entries),
                sum(entry.pages_total for entry in entries),
                sum(entry.rows for entry in entries),
            )

    def eta_s(self, per_s: float | None) -> float | None:
        """Seconds left at the rate that the quota allows, or at the one seen so far."""
        done, total, _rows = self.totals()
        elapsed = self.clock() - self.started
        seen = done / elapsed if elapsed > 1 and done else None
        rate = min(r for r in (per_s, seen) if r) if (per_s or seen) else None
        return max(0, total - done) / rate if rate else None

    def percent(self) -> float:
        """Pages done of those planned. A thin product is done with fewer than planned."""
        entries = list(self.products.values())
        total = sum(max(1, entry.pages_total) for entry in entries)
        done = sum(
            max(1, entry.pages_total)
            if entry.state == Status.DONE.value
            else min(entry.pages_done, entry.pages_total)
            for entry in entries
        )
        return 100.0 * done / total if total else 0.0

    def described(self) -> str:
        """Of each product: pages done of those planned, and its state."""
        parts = [
            f"{entry.product}: {entry.pages_done:,}/{entry.pages_total:,} pages, {entry.state}"
            for entry in list(self.products.values())
        ]
        return "; ".join(parts) or "planning"

    def so_far(self) -> str:
        """Pages of those planned that are answered, and their trades, stored or about to be."""
        done, total, rows = self.totals()
        return f"{done:,}/{total:,} pages, {rows:,} trades fetched"

    def bars(self) -> list[Bar]:
        """One per product."""
        return [
            Bar(
                entry.product,
                1.0
                if entry.pages_total == 0 and entry.state == Status.DONE.value
                else entry.pages_done / max(entry.pages_total, 1),
                (f"{entry.pages_done:,}/{entry.pages_total:,} pages", f"{entry.rows:,} trades"),
                entry.state,
            )
            for entry in list(self.products.values())
        ]
