"""Counters of a delivery, and the line that is made of them every few seconds."""

from __future__ import annotations

import math
import threading
import time
from collections import Counter
from collections.abc import Callable
from dataclasses import asdict, dataclass

from headrace.delivery.model import Outcome
from headrace.run.report import Row

#: Upper bounds of latencies rise by so much: a percentile is at most 2 % too high.
_STEP = math.log(1.02)
_SHORTEST_S = 1e-4


class Latencies:
    """How long requests took. Its size does not depend on how many. Not safe between threads."""

    def __init__(self) -> None:
        self.count = 0
        self._total_s = 0.0
        self._most_s = 0.0
        self._buckets: Counter[int] = Counter()

    def add(self, seconds: float) -> None:
        """One more took so long."""
        self.count += 1
        self._total_s += seconds
        self._most_s = max(self._most_s, seconds)
        self._buckets[math.ceil(math.log(max(seconds, _SHORTEST_S) / _SHORTEST_S) / _STEP)] += 1

    @property
    def mean_s(self) -> float | None:
        """The mean; None without any."""
        return self._total_s / self.count if self.count else None

    def percentile_s(self, share: float) -> float | None:
        """The time within which `share` of all ended, at most 2 % too high; None without any."""
        seen = 0
        for bucket in sorted(self._buckets):
            seen += self._buckets[bucket]
            if seen >= share * self.count:
                return min(_SHORTEST_S * math.exp(bucket * _STEP), self._most_s)
        return None


@dataclass(frozen=True, slots=True)
class BenchmarkLine:
    """What a delivery did up to a moment, and in the interval before it.

    Attributes:
        elapsed_s: since the start.
        successes, expired, buried: requests that have ended so, since the start.
        failures: attempts that failed, since the start.
        rate: successes a second, in the interval.
        mean_ms, p99_ms: from departure to answer, of the successes in the interval.
        queue: requests that wait in this process, dead letters among them.
        dead_letters: those that failed and wait to be tried again.
        graveyard: requests in the graveyard now, those of earlier runs too.
    """

    elapsed_s: float
    successes: int
    failures: int
    expired: int
    buried: int
    rate: float
    mean_ms: float | None
    p99_ms: float | None
    queue: int
    dead_letters: int
    graveyard: int

    def __str__(self) -> str:
        latency = (
            "no answers"
            if self.mean_ms is None or self.p99_ms is None
            else f"latency mean {self.mean_ms:.0f} ms p99 {self.p99_ms:.0f} ms"
        )
        return (
            f"{self.elapsed_s:.0f} s: {self.successes:,} successes, {self.failures:,} failures, "
            f"{self.expired:,} expired, {self.rate:.1f}/s, {latency}, queue {self.queue:,}, "
            f"dead letters {self.dead_letters:,}, graveyard {self.graveyard:,}"
        )

    def as_row(self) -> Row:
        """A row of a table; plain values."""
        return asdict(self)


class Benchmark:
    """Counts what becomes of requests. Safe between threads.

    Args:
        buried_before: how many requests are in the graveyard at the start.
        clock: monotonic seconds.

    Attributes:
        outcomes: requests that have ended, by outcome.
        failures: attempts that failed.
        latencies: of all successes, from departure to answer.
        ages: of all successes, from being accepted to the answer.
    """

    def __init__(self, buried_before: int = 0, clock: Callable[[], float] = time.monotonic) -> None:
        self.outcomes: Counter[Outcome] = Counter()
        self.failures = 0
        self.latencies = Latencies()
        self.ages = Latencies()
        self._recent = Latencies()
        self._graveyard = buried_before
        self._clock = clock
        self._began_s = self._line_s = clock()
        self._lock = threading.Lock()

    def succeeded(self, took_s: float, age_s: float) -> None:
        """A request was answered."""
        with self._lock:
            self.outcomes[Outcome.SUCCESS] += 1
            self.ages.add(age_s)
            for latencies in (self.latencies, self._recent):
                latencies.add(took_s)

    def failed(self) -> None:
        """An attempt failed."""
        with self._lock:
            self.failures += 1

    def ended(self, outcome: Outcome) -> None:
        """A request expired or was buried."""
        with self._lock:
            self.outcomes[outcome] += 1

    @property
    def ended_in_all(self) -> int:
        """Requests that have ended."""
        with self._lock:
            return self.outcomes.total()

    def line(self, *, queue: int, dead_letters: int, closes: bool = True) -> BenchmarkLine:
        """The counters now, and the interval since the last line that closed one.

        Args:
            queue, dead_letters: as they are now.
            closes: whether the next interval begins here.
        """
        with self._lock:
            now_s = self._clock()
            recent = self._recent
            mean_s, p99_s = recent.mean_s, recent.percentile_s(0.99)
            found = BenchmarkLine(
                elapsed_s=round(now_s - self._began_s, 3),
                successes=self.outcomes[Outcome.SUCCESS],
                failures=self.failures,
                expired=self.outcomes[Outcome.EXPIRED],
                buried=self.outcomes[Outcome.GRAVEYARD],
                rate=round(recent.count / max(now_s - self._line_s, 1e-3), 2),
                mean_ms=None if mean_s is None else round(1e3 * mean_s, 1),
                p99_ms=None if p99_s is None else round(1e3 * p99_s, 1),
                queue=queue,
                dead_letters=dead_letters,
                graveyard=self._graveyard + self.outcomes[Outcome.GRAVEYARD],
            )
            if closes:
                self._recent, self._line_s = Latencies(), now_s
            return found
