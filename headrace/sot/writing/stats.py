"""What a write did: how fast a shard is, how long records wait; what was not stored, and why."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterator
from typing import Final

import msgspec

#: Named one by one; beyond that they are counted.
NAMED: Final = 100


class Problem(msgspec.Struct, frozen=True):
    """One record, or a range of records, that did not go into its chain.

    Attributes:
        kind: `gap`, `link`, `fork`, `hash`, `malformed`, `taken-over`, `damage` or `full`.
        symbol_id: None if the record is not sound enough to say.
        seq, last_seq: which records.
        message: one line, with the symbol and the sequence in it.
        where: place in the source, if it is known.
    """

    kind: str
    symbol_id: int | None
    seq: int | None
    last_seq: int | None
    message: str
    where: str = ""

    def __str__(self) -> str:
        return f"{self.where}: {self.message}" if self.where else self.message


class Problems:
    """Problems as they are met: the first `NAMED` by name, all by count."""

    def __init__(self) -> None:
        self.named: list[Problem] = []
        self.counts: Counter[str] = Counter()

    def add(self, problem: Problem, records: int = 1) -> None:
        """Take in a problem that concerns so many records."""
        self.counts[problem.kind] += records
        if len(self.named) < NAMED:
            self.named.append(problem)

    def merge(self, named: list[Problem], counts: dict[str, int]) -> None:
        """Take in what another list holds."""
        self.counts.update(counts)
        self.named.extend(named[: NAMED - len(self.named)])


#: Upper bounds grow by a quarter from 0.1 ms: a percentile is right to 25 %.
_BASE_S: Final = 1e-4
_GROWTH: Final = math.log(1.25)
_BUCKETS: Final = 96


class Histogram(msgspec.Struct):
    """Durations in buckets of growing width; adds up over shards and processes."""

    counts: list[int] = msgspec.field(default_factory=lambda: [0] * _BUCKETS)
    total: int = 0
    max_s: float = 0.0

    def add(self, seconds: float, times: int = 1) -> None:
        """Count a duration."""
        bucket = 0
        if seconds > _BASE_S:
            bucket = min(_BUCKETS - 1, int(math.log(seconds / _BASE_S) / _GROWTH) + 1)
        self.counts[bucket] += times
        self.total += times
        self.max_s = max(self.max_s, seconds)

    def merge(self, other: Histogram) -> None:
        """Add another one's counts."""
        self.counts = [a + b for a, b in zip(self.counts, other.counts, strict=True)]
        self.total += other.total
        self.max_s = max(self.max_s, other.max_s)

    def quantile(self, share: float) -> float:
        """The duration in seconds below which `share` of them lie; 0 if there are none."""
        left = share * self.total
        for bound_s, count in self.bounded():
            left -= count
            if count and left <= 0:
                return bound_s
        return self.max_s

    def bounded(self) -> Iterator[tuple[float, int]]:
        """Upper bounds in seconds, none above the longest duration, with their counts."""
        for bucket, count in enumerate(self.counts):
            yield min(self.max_s, _BASE_S * math.exp(_GROWTH * bucket)), count


class ShardStats(msgspec.Struct):
    """One shard of one run.

    Attributes:
        symbols: how many it wrote.
        records, size_bytes: acknowledged, size before compression.
        batches: committed.
        commit: seconds from handing batches to the store to its answer.
        delay: seconds from reading a record to its acknowledgement, per record.
        queue_bytes: the most that waited at once, read but not acknowledged.
        busy_s: time in which at least one commit was under way.
        elapsed_s: from the shard's first record to its last acknowledgement.
    """

    shard: int
    symbols: int = 0
    records: int = 0
    size_bytes: int = 0
    batches: int = 0
    commit: Histogram = msgspec.field(default_factory=Histogram)
    delay: Histogram = msgspec.field(default_factory=Histogram)
    queue_bytes: int = 0
    busy_s: float = 0.0
    elapsed_s: float = 0.0

    @property
    def records_per_s(self) -> float:
        """Messages per second while the shard was busy."""
        return self.records / self.elapsed_s if self.elapsed_s else 0.0


def skew(shards: list[ShardStats]) -> float:
    """The busiest shard's records over the mean of all shards: 1 is even, `len(shards)` is one hot.

    0 if nothing was written.
    """
    total = sum(shard.records for shard in shards)
    return max(shard.records for shard in shards) * len(shards) / total if total else 0.0
