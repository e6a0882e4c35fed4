"""The buffer of an ordered quota: what is learned of delays, and what it comes to at a server."""

from __future__ import annotations

import heapq
import math
import random
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from headrace.quota.book import SlotBook
from headrace.quota.clock import MS, NS
from headrace.quota.config import BufferConfig, QuotaConfig
from headrace.quota.delays import DelaySpread
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
        spread = delays.note(int((there(chance) + back(chance)) * NS)) or spread
    assert spread is not None
    return delays, spread / MS


def test_the_spread_of_one_way_is_separated_from_that_of_both() -> None:
    assert learned(even, even)[1] == pytest.approx(52, abs=8)


def test_a_heavy_tail_is_seen() -> None:
    assert learned(heavy, heavy)[1] > 200


def test_nothing_is_concluded_from_few_answers() -> None:
    delays = DelaySpread()
    assert [delays.note(NS // 20) for _ in range(63)] == [None] * 63
    assert delays.excess(NS // 20) == NS // 20


def test_refusals_make_the_spread_larger_up_to_twice() -> None:
    delays, before = learned(even, steady, 240)
    for _ in range(100):
        delays.refused()
    spread = None
    while spread is None:
        spread = delays.note(50 * MS)
    assert before < 40  # half of the true one, since the way back is steady
    assert spread / MS == pytest.approx(2 * before, rel=0.1)


@pytest.mark.parametrize("delay", [even, heavy])
def test_no_request_arrived_later_than_its_excess_says(delay: Any) -> None:
    delays, _ = learned(delay, delay)
    chance = random.Random(8)
    for _ in range(2000):
        there, back = delay(chance), delay(chance)
        assert delays.excess(int((there + back) * NS)) >= (there - 0.003) * NS


class Clock:
    """Moves when a test says so."""

    boot_id = "a boot"

    def __init__(self) -> None:
        self.moment = 10 * NS

    def now(self) -> int:
        return self.moment


def play(
    folder: Path, delay: Any, seconds: int = 60, buffer: BufferConfig | None = None
) -> tuple[Counter[int], float]:
    """One key against a strict server of 20/s, in virtual time.

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
            at, _, (slot, left, nonce, status) = heapq.heappop(coming)
            clock.moment = at
            if status is None:
                refusal = server.refuse(str(nonce), at / NS)
                status = 200 if refusal is None else refusal.status
                statuses[status] += 1
                back = at + int(delay(chance) * NS)
                heapq.heappush(coming, (back, -nonce, (slot, left, nonce, status)))
            else:
                session._learn(book, slot, left, at - left, refused=status != 200)
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
        heapq.heappush(coming, (left + int(delay(chance) * NS), nonce, (held, left, nonce, None)))
    book.close()
    return statuses, statuses[200] / seconds


def test_even_delays_cost_no_more_than_they_must(tmp_path: Path) -> None:
    """The ceiling is 20 in 1.05 s: 19.05."""
    statuses, accepted = play(tmp_path, even)
    assert set(statuses) == {200}
    assert accepted > 18.8


def test_a_heavy_tail_costs_order_but_is_never_throttled(tmp_path: Path) -> None:
    statuses, accepted = play(tmp_path, heavy)
    assert set(statuses) == {200, 400}
    assert accepted > 13


def test_steady_delays_shrink_the_buffer_to_its_floor(tmp_path: Path) -> None:
    buffer = BufferConfig(initial_ms=52, floor_ms=5)
    statuses, accepted = play(tmp_path, steady, seconds=240, buffer=buffer)
    assert set(statuses) == {200}
    assert accepted > 19.3


def test_a_buffer_keeps_to_its_ceiling(tmp_path: Path) -> None:
    buffer = BufferConfig(initial_ms=52, floor_ms=52, ceiling_ms=60)
    statuses, accepted = play(tmp_path, heavy, buffer=buffer)
    assert sum(statuses.values()) > 60 * 18.5  # it was not slowed down further
    assert accepted < 18.5
