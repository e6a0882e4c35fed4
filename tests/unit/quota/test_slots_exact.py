"""No window ever holds more than its limit, whatever processes and schedulers do."""

from __future__ import annotations

import heapq
import random
import tempfile
from dataclasses import dataclass, field
from pathlib import Path

import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

from headrace.quota import Lane, QuotaConfig
from headrace.quota.bookings import SlotBook
from headrace.quota.shared.transactions import Ledger
from headrace.quota.slot import Slot
from tests.support.keepers import MemoryKeeper, MemoryServer

S = 1_000_000_000
MS = 1_000_000


@dataclass
class SkewedClock:
    """What one machine knows of the server's clock: it is late, by no more than its slack."""

    world: World
    late: int
    slack: int
    boot_id: str = "boot"
    steps: int = 0

    def now(self) -> int:
        return self.world.at - self.late


@dataclass
class World:
    """Callers on a simulated clock: they are woken late, killed, overtaken and slow to settle.

    `slack` puts each process on a machine of its own, whose clock is uncertain by up to so much.
    """

    rates: str
    seed: int
    burst: int | None = None
    packets: bool = False
    calm: bool = False
    at: int = 1_000 * S
    shared: bool = False
    slack: int = 0
    departures: list[int] = field(default_factory=list)
    clocks: dict[SlotBook, SkewedClock] = field(default_factory=dict)

    def run(self, folder: Path, processes: int, callers: int, permits: int) -> None:
        chance = random.Random(self.seed)
        config = QuotaConfig(name="x", rates=self.rates, burst=self.burst)
        server = MemoryServer()
        books = []
        for _ in range(processes):
            slack = chance.randrange(self.slack) if self.slack else 0
            clock = SkewedClock(self, chance.randrange(slack) if slack else 0, slack)
            shared = Ledger(MemoryKeeper(server, clock), "x", S) if self.shared else None
            books.append(SlotBook(folder / "q.sqlite", config, clock, shared))
            self.clocks[books[-1]] = clock
        agenda: list[tuple[int, int, SlotBook, Slot | None]] = []
        for number in range(callers):
            when = self.at + chance.randrange(S)
            heapq.heappush(agenda, (when, number, books[number % processes], None))
        number = callers
        while len(self.departures) < permits and agenda:
            when, _, book, slot = heapq.heappop(agenda)
            self.at = max(self.at, when) + chance.randrange(200_000)
            number += 1
            slot = self._step(book, slot, chance)
            wake = self._wakes(book, slot, chance)
            heapq.heappush(agenda, (wake, number, book, slot))
        for book in books:
            book.close()

    def _step(self, book: SlotBook, slot: Slot | None, chance: random.Random) -> Slot | None:
        """One thread runs for a moment; what it returns is the slot that it now waits for."""
        if slot is None:
            reach = chance.choice([1, 2, 8]) if self.packets else 1
            booked = book.book(chance.choice(list(Lane)), reach=reach)
            assert isinstance(booked, Slot)
            return booked
        now = self.clocks[book].now()
        if slot.at > now:
            return slot if slot.fixed else book.tighten(slot, fix=slot.at - now < 3 * book.guard)
        if not slot.fixed:
            held = book.confirm(slot)
            if held is None or not held.fixed:
                return held
            slot = held
        for permit in slot.singly():
            self._leave(book, permit, chance)
        return None

    def _leave(self, book: SlotBook, slot: Slot, chance: random.Random) -> None:
        if not self.calm:
            if chance.random() < 0.02:
                return  # killed: neither leaves nor settles
            if chance.random() < 0.03:
                book.give_back(slot)
                return
        hold_up = 0.1 * MS if self.calm else MS
        self.at += int(chance.expovariate(1 / hold_up))  # between the answer and leaving
        held: Slot | None = slot
        clock = self.clocks[book]
        while held is not None and held.late(clock.now() + clock.slack):
            held = book.delay(held)
            self.at += int(chance.expovariate(1 / MS))
        if held is not None:
            self.departures.append(self.at)
            book.settle(held, clock.now())

    def _wakes(self, book: SlotBook, slot: Slot | None, chance: random.Random) -> int:
        late = int(chance.expovariate(1 / (0.3 * MS)))
        if chance.random() < 0.05 and not self.calm:
            late += chance.randrange(80 * MS)
        if slot is None:
            return self.at + late + (0 if self.calm else chance.choice([0, 0, chance.randrange(S)]))
        far = slot.at - self.at > book.shortest
        look_again = self.at + book.relook if far else slot.at - 2 * book.guard
        straight = slot.fixed or slot.tight or look_again <= self.at
        late += self.clocks[book].late
        return max(self.at, slot.at if straight else look_again) + late


def overfull(departures: list[int], limit: int, length: int) -> list[int]:
    """How far beyond the limit a window was hit: nanoseconds by which a permit came too early."""
    ordered = sorted(departures)
    return [
        length - (later - earlier)
        for earlier, later in zip(ordered, ordered[limit:], strict=False)
        if later - earlier < length
    ]


@settings(max_examples=15)
@given(
    seed=st.integers(0, 2**32),
    processes=st.integers(1, 5),
    rates=st.sampled_from(["3/s", "10/s", "20/s,100/10s", "4/100ms"]),
    slack=st.sampled_from([1, MS, 15 * MS]),
)
def test_nor_where_machines_differ_about_the_servers_clock(
    seed: int, processes: int, rates: str, slack: int
) -> None:
    world = World(rates, seed, shared=True, slack=slack)
    world.run(Path(), processes, callers=12, permits=120)
    for rate in QuotaConfig(name="x", rates=rates).rates:
        assert overfull(world.departures, rate.limit, rate.interval_ms * MS) == []


@settings(max_examples=10)
@given(
    seed=st.integers(0, 2**32),
    processes=st.integers(1, 5),
    rates=st.sampled_from(["3/s", "10/s", "20/s,100/10s"]),
    packets=st.booleans(),
)
def test_a_shared_quota_does_what_a_file_does(
    seed: int, processes: int, rates: str, packets: bool
) -> None:
    in_a_file, shared = (World(rates, seed, None, packets, shared=way) for way in (False, True))
    with tempfile.TemporaryDirectory() as folder:
        in_a_file.run(Path(folder), processes, callers=12, permits=120)
    shared.run(Path(), processes, callers=12, permits=120)
    assert in_a_file.departures == shared.departures


@settings(max_examples=25, suppress_health_check=[HealthCheck.too_slow])
@example(seed=0, processes=1, callers=24, rates="1/s", burst=None)
@given(
    seed=st.integers(0, 2**32),
    processes=st.integers(1, 5),
    callers=st.integers(1, 24),
    rates=st.sampled_from(["1/s", "3/s", "10/s", "20/s,100/10s", "4/100ms"]),
    burst=st.sampled_from([None, None, 1, 3]),
)
def test_no_window_holds_more_than_its_limit(
    seed: int, processes: int, callers: int, rates: str, burst: int | None
) -> None:
    world = World(rates, seed, burst)
    with tempfile.TemporaryDirectory() as folder:
        world.run(Path(folder), processes, callers, permits=120)
    for rate in QuotaConfig(name="x", rates=rates).rates:
        assert overfull(world.departures, rate.limit, rate.interval_ms * MS) == []


@settings(max_examples=25, suppress_health_check=[HealthCheck.too_slow])
@given(
    seed=st.integers(0, 2**32),
    processes=st.integers(1, 5),
    callers=st.integers(1, 24),
    rates=st.sampled_from(["100/s", "200/s,300/2s", "60/s", "15/s", "10/s,50/10s", "4/100ms"]),
)
def test_nor_when_permits_are_booked_together(
    seed: int, processes: int, callers: int, rates: str
) -> None:
    world = World(rates, seed, packets=True)
    with tempfile.TemporaryDirectory() as folder:
        world.run(Path(folder), processes, callers, permits=400)
    for rate in QuotaConfig(name="x", rates=rates).rates:
        assert overfull(world.departures, rate.limit, rate.interval_ms * MS) == []


@pytest.mark.parametrize("seed", range(3))
def test_the_quota_is_used_by_those_who_always_want(tmp_path: Path, seed: int) -> None:
    world = World("10/s", seed)
    world.run(tmp_path, processes=3, callers=12, permits=400)
    ordered = sorted(world.departures)
    assert (ordered[-1] - ordered[0]) / S < 1.12 * len(ordered) / 10


@pytest.mark.parametrize("processes", [3, 16])
def test_bookings_far_ahead_do_not_add_up_their_guards(tmp_path: Path, processes: int) -> None:
    # Sixteen of them hold bookings 1.6 windows ahead, which rest on bookings that rest on bookings.
    world = World("10/s", seed=1, calm=True)
    world.run(tmp_path, processes=processes, callers=processes, permits=600)
    later = sorted(world.departures)[100:]
    assert (later[-1] - later[0]) / S < 1.01 * len(later) / 10
