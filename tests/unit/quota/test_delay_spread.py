"""The buffer of an ordered quota: what is learned of delays, and what it comes to at a server."""

from __future__ import annotations

import heapq
import math
import random
import sqlite3
from collections import Counter
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from headrace.quota.bookings import SlotBook
from headrace.quota.clock import MS, NS
from headrace.quota.config import BufferConfig, QuotaConfig
from headrace.quota.delay_spread import DelaySpread, Known
from headrace.quota.lanes import Lane
from headrace.quota.session import Session
from headrace.sim.keyed import KeyedSettings
from headrace.sim.keyed.simulation import KeyState


def even(chance: random.Random) -> float:
    """0 to 50 ms."""
    return chance.uniform(0, 0.05)


def heavy(chance: random.Random) -> float:
    """Median 25 ms, 99th percentile 300 ms."""
    return 0.025 * math.exp(1.068 * chance.gauss(0, 1))


def steady(_: random.Random) -> float:
    return 0.03


def learned(there: Any, back: Any, answers: int = 512) -> tuple[DelaySpread, float]:
    """What is known after so many answers, and the spread in ms."""
    chance, delays, spread = random.Random(7), DelaySpread(), None
    for _ in range(answers):
        spread = delays.note(0, int((there(chance) + back(chance)) * NS)).spread or spread
    assert spread is not None
    return delays, spread / MS


def test_the_spread_of_one_way_is_separated_from_that_of_both() -> None:
    assert learned(even, even)[1] == pytest.approx(52, abs=8)


def test_a_heavy_tail_is_seen() -> None:
    assert learned(heavy, heavy)[1] > 200


def test_a_few_answers_that_a_busy_machine_held_up_do_not_count_for_the_spread() -> None:
    chance, delays, spread = random.Random(7), DelaySpread(), None
    for number in range(512):
        held_up = 0.3 if number % 50 == 0 else 0.0
        round_trip = even(chance) + even(chance) + held_up
        spread = delays.note(0, int(round_trip * NS)).spread or spread
    assert spread is not None
    assert spread / MS == pytest.approx(52, abs=12)


def test_nothing_is_concluded_from_few_answers() -> None:
    delays = DelaySpread()
    known = [delays.note(0, NS // 20, NS) for _ in range(63)]
    assert known == [Known(NS // 20, False, None)] * 63


def test_refusals_make_the_spread_larger_up_to_twice() -> None:
    delays, before = learned(even, steady, 240)
    spread = None
    for _ in range(16):
        spread = delays.note(0, 50 * MS, refused=True).spread or spread
    assert before < 40  # half of the true one, since the way back is steady
    assert spread / MS == pytest.approx(2 * before, rel=0.1)


@pytest.mark.parametrize("delay", [even, heavy])
def test_no_request_arrived_later_than_it_is_taken_for(delay: Any) -> None:
    delays, _ = learned(delay, delay)
    chance = random.Random(8)
    for _ in range(2000):
        there, back = delay(chance), delay(chance)
        known = delays.note(0, int((there + back) * NS), refused=True)
        assert not known.exact
        assert known.late >= (there - 0.003) * NS


def test_a_round_trip_of_two_spreads_counts_as_one_unless_the_request_was_refused() -> None:
    delays, spread_ms = learned(even, even)
    assert delays.note(0, 85 * MS).late / MS == pytest.approx(spread_ms, abs=1)
    assert delays.note(0, 85 * MS, refused=True).late > 75 * MS
    assert delays.note(0, 400 * MS).late > 390 * MS


class Server:
    """Answers with the time at which it counted a request, in whole milliseconds of its clock."""

    def __init__(self, delay: Any, ahead_s: float = 1_000.0) -> None:
        self.chance, self.delay, self.ahead_s = random.Random(9), delay, ahead_s
        self.delays, self.sent = DelaySpread(), 10 * NS

    def answer(self) -> tuple[float, Known]:
        """What one request was delayed by in ms, and what its answer shows."""
        self.sent += NS // 100
        there = self.delay(self.chance)
        arrived = self.sent + int(there * NS)
        answered = arrived + int(self.delay(self.chance) * NS)
        counted = int((arrived / NS + self.ahead_s) * 1000) * MS
        return there * 1e3, self.delays.note(self.sent, answered, counted)

    def answers(self, count: int) -> list[tuple[float, Known]]:
        return [self.answer() for _ in range(count)]


@pytest.mark.parametrize("delay", [even, heavy])
def test_by_the_server_s_clock_each_delay_is_seen(delay: Any) -> None:
    server = Server(delay)
    server.answers(100)
    for late_ms, known in server.answers(500):
        assert known.exact
        assert late_ms - 4 < known.late / MS < late_ms + 1.5


def test_by_the_server_s_clock_the_spread_is_that_of_the_way_there() -> None:
    spreads = [known.spread for _, known in Server(even).answers(600) if known.spread]
    assert spreads[-1] / MS == pytest.approx(50.5, abs=1.5)


@pytest.mark.parametrize("step_s", [0.2, 3600.0, -0.2, -3600.0])
def test_a_clock_that_steps_is_not_believed_until_it_is_known_again(step_s: float) -> None:
    server = Server(even)
    server.answers(300)
    server.ahead_s += step_s
    after = server.answers(400)
    seen = next(place for place, (_, known) in enumerate(after) if not known.exact)
    assert seen < 3  # at once, but for a step that a delay can hide
    assert not any(known.exact for _, known in after[seen : seen + 63])
    for late_ms, known in after:
        assert known.late / MS > late_ms - 4
    assert all(known.exact for _, known in after[-200:])


@pytest.mark.parametrize("counted", [lambda _: 5 * NS, lambda sent: sent // NS * NS])
def test_times_that_say_nothing_are_never_believed(counted: Any) -> None:
    chance, delays = random.Random(4), DelaySpread()
    for number in range(600):
        sent = number * NS // 10
        answered = sent + int((even(chance) + even(chance)) * NS)
        assert not delays.note(sent, answered, counted(sent)).exact


class Clock:
    """Moves when a test says so."""

    boot_id = "a boot"
    slack = 0

    def __init__(self) -> None:
        self.moment = 10 * NS

    def now(self) -> int:
        return self.moment


def play(
    folder: Path,
    delay: Any,
    seconds: int = 60,
    buffer: BufferConfig | None = None,
    *,
    dated: bool = False,
) -> tuple[Counter[int], float]:
    """One key against a strict server of 20/s, in virtual time.

    Args:
        dated: whether answers say when the server counted a request, in milliseconds. Its clock
            steps every ten seconds.

    Returns:
        Statuses of all requests, and those that were accepted per second.
    """
    clock, chance = Clock(), random.Random(3)
    server = KeyState(1, KeyedSettings.of(limit=20))
    config = QuotaConfig(name="a", rates="20/s", buffer=buffer or BufferConfig(), ahead_ms=5)
    book = SlotBook(folder / "quota-a.sqlite", config, clock)
    session = Session("a", book, None, clock, None)  # type: ignore[arg-type] - it asks no breaker
    began, statuses = clock.moment, Counter[int]()
    # Moments at which something reaches the server, and answers reach the client.
    coming: list[tuple[int, int, Any]] = []

    def until(moment: int) -> None:
        while coming and coming[0][0] <= moment:
            at, _, (slot, left, nonce, status, counted) = heapq.heappop(coming)
            clock.moment = at
            if status is None:
                refusal = server.refuse(str(nonce), at / NS)
                status = 200 if refusal is None else refusal.status
                statuses[status] += 1
                steps = at // (10 * NS) % 2 * 3600 * NS
                counted = (at + steps) // MS * MS if dated and status == 200 else None
                back = at + int(delay(chance) * NS)
                heapq.heappush(coming, (back, -nonce, (slot, left, nonce, status, counted)))
            else:
                refused = status != 200
                known = session.delays.note(left, at, counted, refused=refused)
                session._learn(book, slot, left, known, refused=refused)
        clock.moment = moment

    while clock.moment < began + seconds * NS:
        slot = book.book(Lane.BACKFILL)
        assert not isinstance(slot, int)
        until(slot.at)
        held = book.tighten(slot)
        assert held is not None
        until(held.at + MS // 2)  # a thread wakes up half a millisecond late
        left = clock.moment
        nonce = book.nonce(held, 0)
        heapq.heappush(
            coming, (left + int(delay(chance) * NS), nonce, (held, left, nonce, None, None))
        )
    book.close()
    return statuses, statuses[200] / seconds


def test_even_delays_cost_no_more_than_they_must(tmp_path: Path) -> None:
    """The ceiling is 20 in 1.05 s: 19.05."""
    statuses, accepted = play(tmp_path, even)
    assert set(statuses) == {200}
    assert accepted > 18.8


def test_a_server_that_dates_its_answers_gives_more_also_where_its_clock_steps(
    tmp_path: Path,
) -> None:
    statuses, accepted = play(tmp_path, even, dated=True)
    assert set(statuses) == {200}
    assert accepted > 19.0


@pytest.mark.parametrize("dated", [True, False])
def test_a_heavy_tail_costs_order_but_is_never_throttled(tmp_path: Path, dated: bool) -> None:
    statuses, accepted = play(tmp_path, heavy, dated=dated)
    assert set(statuses) == {200, 400}
    assert accepted > 14


def test_a_buffer_that_grew_too_large_is_back_within_seconds(tmp_path: Path) -> None:
    buffer = BufferConfig(initial_ms=400)
    statuses, accepted = play(tmp_path, even, seconds=30, buffer=buffer)
    assert set(statuses) == {200}
    assert accepted > 18.4  # of 18.9 with the right one from the start


def test_steady_delays_shrink_the_buffer_to_its_floor(tmp_path: Path) -> None:
    buffer = BufferConfig(initial_ms=52, floor_ms=5)
    statuses, accepted = play(tmp_path, steady, seconds=240, buffer=buffer)
    assert set(statuses) == {200}
    assert accepted > 19.3


def test_a_buffer_keeps_to_its_ceiling(tmp_path: Path) -> None:
    buffer = BufferConfig(initial_ms=52, floor_ms=52, ceiling_ms=60)
    play(tmp_path, heavy, seconds=20, buffer=buffer)
    with closing(sqlite3.connect(tmp_path / "quota-a.sqlite")) as connection:
        assert connection.execute("SELECT buffer FROM keyed").fetchone()[0] == 60 * MS
