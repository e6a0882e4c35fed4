"""Shared quotas: what a server that forgets, other rates and other machines do to them."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import ExitStack
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headrace.quota import BreakerConfig, Phase, QuotaConfig, QuotaUnavailable, RatesConflict
from headrace.quota.bookings import SlotBook
from headrace.quota.breaker import Pass
from headrace.quota.breaker_file import Breaker
from headrace.quota.exceptions import QuotaOutage
from headrace.quota.processes import this_machine
from headrace.quota.shared.clock import ServerClock
from headrace.quota.shared.replica import Replica
from headrace.quota.shared.server import KEPT, Answer
from headrace.quota.shared.transactions import Ledger
from tests.support.keepers import MemoryKeeper, MemoryServer

S = 1_000_000_000
MS = 1_000_000
WINDOW = S + 2 * MS
#: For what was fixed before a loss.
LATEST = 310 * MS

Open = Callable[..., SlotBook]


@pytest.fixture
def server(clock: Any) -> MemoryServer:
    clock.steps = 0
    return MemoryServer()


@pytest.fixture
def open_book(server: MemoryServer, clock: Any) -> Iterator[Open]:
    """Every book is a process of its own."""
    with ExitStack() as stack:

        def opened(rates: str = "3/s", unsure: bool = False) -> SlotBook:
            ledger = Ledger(MemoryKeeper(server, clock, unsure), "x", S)
            book = SlotBook("memory://", QuotaConfig(name="x", rates=rates), clock, ledger)
            stack.callback(book.close)
            return book

        yield opened


def next_at(book: SlotBook) -> int:
    slot = book.book(2)
    assert not isinstance(slot, int)
    return slot.at


def test_one_round_trip_alone_and_two_where_another_wrote(open_book: Open) -> None:
    one, other = open_book("1000/s"), open_book("1000/s")
    calls = []
    for book in (one, one, one, other, other, one):
        keeper = book._file._ledger._keeper
        before = keeper.calls
        book.book(2)
        calls.append(keeper.calls - before)
    assert calls == [2, 1, 1, 2, 1, 2]


def test_what_only_reads_reads_what_others_wrote_without_another_round_trip(
    open_book: Open,
) -> None:
    one, other = open_book("1000/s"), open_book("1000/s")
    slot = one.book(2)
    assert not isinstance(slot, int)
    other.forget()
    keeper = one._file._ledger._keeper
    before = keeper.calls
    assert one.confirm(slot) is None
    assert keeper.calls - before == 1


@pytest.mark.parametrize("takes_ms", [0, 6, 40, 200])
def test_a_permit_is_booked_for_when_a_slow_server_has_answered(
    takes_ms: int, open_book: Open, clock: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    answer = MemoryKeeper.append

    def slow(self: MemoryKeeper, *asked: Any) -> Answer:
        clock.advance(takes_ms / 1000)
        return answer(self, *asked)

    monkeypatch.setattr(MemoryKeeper, "append", slow)
    book, departures = open_book("5/s"), []
    for _ in range(20):
        slot = book.book(2)
        assert not isinstance(slot, int)
        if slot.late(clock.now()):
            slot = book.delay(slot)
            assert slot is not None
            assert not departures, "only the first one does not know how long it takes"
        assert not slot.late(clock.now())
        clock.advance(max(0, slot.at - clock.now()) / S)
        departures.append(clock.now())
        book.settle(slot, clock.now())
    for first, sixth in zip(departures, departures[5:], strict=False):
        assert sixth - first >= S


def test_an_answer_that_comes_while_the_server_is_away_is_no_failure_of_the_request(
    server: MemoryServer, clock: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    ledger = Ledger(MemoryKeeper(server, clock), "x", S)
    breaker = Breaker("memory://", "x", BreakerConfig(), clock, ledger=ledger)
    given, connect, away = breaker.ask(), MemoryKeeper.connect, [True, True]

    def connected(self: MemoryKeeper) -> int:
        if away:
            away.pop()
            raise QuotaOutage("memory://", "restarting")
        return connect(self)

    monkeypatch.setattr(MemoryKeeper, "connect", connected)
    ledger._forget()
    assert isinstance(given, Pass)
    breaker.succeeded(given)
    assert away == []


def test_a_new_quota_gives_at_once_and_one_of_a_new_server_after_a_window(
    open_book: Open, server: MemoryServer, clock: Any
) -> None:
    assert next_at(open_book()) == clock.now()
    server.lose()
    assert next_at(open_book(unsure=True)) == clock.now() + WINDOW + LATEST


def test_what_a_server_lost_is_waited_for_one_window(
    open_book: Open, server: MemoryServer, clock: Any
) -> None:
    book, other = open_book(), open_book()
    next_at(book)
    server.lose()
    lost_at = clock.now()
    assert next_at(other) == next_at(book) == lost_at + WINDOW + LATEST


def test_a_stranger_who_begins_after_a_loss_is_held_back_by_those_who_know(
    open_book: Open, server: MemoryServer, clock: Any
) -> None:
    book = open_book()
    next_at(book)
    server.lose()
    stranger = open_book()
    assert next_at(stranger) == clock.now()
    next_at(book)
    assert next_at(stranger) >= clock.now() + WINDOW


def test_a_loss_of_long_ago_holds_no_process_back(
    open_book: Open, server: MemoryServer, clock: Any
) -> None:
    book = open_book()
    server.lose()
    open_book()
    clock.advance(2)
    assert next_at(book) == clock.now()


def test_a_server_that_was_restarted_or_set_its_clock_is_waited_for(
    open_book: Open, clock: Any
) -> None:
    book = open_book()
    next_at(book)
    clock.boot_id = "another start"
    book._file._ledger._keeper.connections += 1
    assert next_at(book) == clock.now() + WINDOW + LATEST
    clock.advance(5)
    clock.steps += 1
    assert next_at(book) == clock.now() + WINDOW + LATEST


def test_who_was_away_for_long_reads_the_whole_again(open_book: Open, clock: Any) -> None:
    away, busy = open_book("10000/s"), open_book("10000/s")
    next_at(away)
    for _ in range(2 * KEPT):
        next_at(busy)
    assert next_at(away) >= clock.now()
    tables = ("slots", "state", "owners", "hosts", "sqlite_sequence")
    seen = [
        [book._file.look(lambda c, t=t: c.execute(f"SELECT * FROM {t}").fetchall()) for t in tables]
        for book in (away, busy)
    ]
    assert seen[0] == seen[1]


def test_a_change_that_is_on_its_way_is_no_reason_to_read_the_whole(
    open_book: Open, monkeypatch: pytest.MonkeyPatch
) -> None:
    book = open_book("1000/s")
    keeper = book._file._ledger._keeper
    append, busy = keeper.append, [Answer(False, []), Answer(False, [])]
    monkeypatch.setattr(keeper, "append", lambda *asked: busy.pop() if busy else append(*asked))
    monkeypatch.setattr(keeper, "read", lambda _name: pytest.fail("it was read again"))
    next_at(book)
    assert not busy


def on_machine(number: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("headrace.quota.processes.this_machine", lambda: number)


def test_other_rates_on_another_machine_are_refused_and_the_setting_is_named(
    open_book: Open, clock: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    book = open_book("10/s")
    on_machine(this_machine() ^ 2, monkeypatch)
    with pytest.raises(RatesConflict, match="HEADRACE_RATE") as caught:
        open_book("20/s")
    assert (caught.value.recorded, caught.value.wanted) == ("10/s", "20/s")
    clock.advance(121)
    next_at(open_book("20/s"))
    # The first one was silent, not gone: it may not go on with the former rates.
    with pytest.raises(RatesConflict, match="20/s"):
        next_at(book)


def test_one_breaker_for_all_machines_and_one_probe(server: MemoryServer, clock: Any) -> None:
    config = BreakerConfig(failures=2, successes=1, cooldown_s=10)

    def opened() -> Breaker:
        return Breaker(
            "memory://", "x", config, clock, ledger=Ledger(MemoryKeeper(server, clock), "x", S)
        )

    one, other = opened(), opened()
    given = one.ask()
    assert isinstance(given, Pass)
    one.failed(given)
    other.failed(given)
    assert one.state().phase is Phase.OPEN
    assert not one.still_holds(given)
    clock.advance(10)
    probe, refused = other.ask(), one.ask()
    assert isinstance(probe, Pass)
    assert isinstance(refused, int)
    other.succeeded(probe)
    assert one.state().phase is Phase.CLOSED


def test_what_another_version_wrote_is_refused() -> None:
    with pytest.raises(QuotaUnavailable, match="quota drop"):
        Replica("x", b"\x92\xa3old\x90")
    with pytest.raises(QuotaUnavailable, match="none of ours"):
        Replica("x", b"nonsense")
    Replica("x", Replica("x").content())


@given(st.lists(st.tuples(st.integers(0, 50 * MS), st.integers(0, 50 * MS), st.integers(0, 3 * S))))
def test_the_servers_time_lies_within_the_slack(delays: list[tuple[int, int, int]]) -> None:
    at, ahead = 0, 17 * S
    clock = ServerClock(lambda: at)
    clock.learn(0, 1, ahead)
    before = 0
    for out, back, pause in delays:
        left = at
        answered = at + out + ahead
        at += out + back
        clock.learn(left, at, answered // 1000 * 1000)
        at += pause
        now = clock.now()
        assert now <= at + ahead <= now + clock.slack + 1000
        assert now >= before
        before = now
    assert clock.steps == 0


@pytest.mark.parametrize("step", [-3600 * S, -S, S, 3600 * S])
def test_a_server_that_sets_its_clock_is_noticed(step: int) -> None:
    at = 0
    clock = ServerClock(lambda: at)
    clock.learn(0, MS, 10_000 * S)
    at = 5 * S
    clock.learn(at - MS, at, 10_005 * S + step)
    assert clock.steps == 1
    assert clock.now() <= 10_005 * S + step <= clock.now() + clock.slack
