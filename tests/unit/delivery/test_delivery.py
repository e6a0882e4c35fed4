"""What becomes of a request after each attempt; the queue's bounds; a stop; a broken file."""

from __future__ import annotations

import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

from headrace.delivery.client import Expired, KeyRefused, NonceRefused
from headrace.delivery.delivery import Delivery
from headrace.delivery.exceptions import JournalUnavailable
from headrace.delivery.journal import Books, Journal
from headrace.delivery.model import ApiRequest, Outcome, Pending
from headrace.errors import HeadraceError
from headrace.metrics.requests import ClientStats
from headrace.quota import OutageError
from headrace.stopping import Ending, StopEvent, Stopped
from headrace.wire.exceptions import (
    BadAnswer,
    ConnectionFailed,
    RequestRefused,
    RequestTimeout,
    ServerError,
    Throttled,
)

Answer = Callable[[Pending], None]


class ScriptedClient:
    """Answers each try of a request as its script says; anything after the script succeeds."""

    def __init__(self, script: dict[str, list[BaseException]] | None = None) -> None:
        self.stats = ClientStats()
        self.script = script or {}
        self.seen: list[str] = []
        self.answer: Answer = lambda _pending: None
        self._lock = threading.Lock()

    def try_once(self, pending: Pending) -> float:
        with self._lock:
            self.seen.append(pending.request.path)
            outcomes = self.script.get(pending.request.path)
            error = outcomes.pop(0) if outcomes else None
        pending.left = not isinstance(error, Expired)
        self.answer(pending)
        if error is not None:
            raise error
        return 0.01


@pytest.fixture
def journal(tmp_path: Path) -> Iterator[Journal]:
    with Journal(tmp_path / "orders.sqlite") as opened:
        yield opened


def delivery_of(journal: Journal, client: Any, **options: Any) -> Delivery:
    ending = options.pop("ending", None) or Ending(StopEvent())
    options.setdefault("break_off", lambda: None)
    return Delivery(journal, client, ending, **{"workers": 4, **options})


def unreachable() -> ConnectionFailed:
    error = ConnectionFailed("no answer")
    error.unreachable = True
    return error


def stale() -> ConnectionFailed:
    error = ConnectionFailed("the connection broke")
    error.stale = True
    return error


@pytest.mark.parametrize("method", ["GET", "POST"])
@pytest.mark.parametrize(
    ("failures", "of_get", "of_post", "tries"),
    [
        ([], "success", "success", 1),
        ([Throttled("429", status=429)] * 4, "success", "success", 5),
        ([Throttled("429", status=429)] * 5, "graveyard", "graveyard", 5),
        ([KeyRefused("401", status=401)], "success", "success", 2),
        ([NonceRefused("400", status=400)], "success", "success", 2),
        ([unreachable()], "success", "success", 2),
        ([ServerError("503", status=503)], "success", "unknown", 2),
        ([RequestTimeout("silence")], "success", "unknown", 2),
        ([BadAnswer("HTML", status=200)], "success", "unknown", 2),
        ([stale()], "success", "unknown", 2),
        ([ServerError("503", status=503)] * 5, "unknown", "unknown", 5),
        ([RequestRefused("404", status=404)], "graveyard", "graveyard", 1),
        ([Expired()], "expired", "expired", 1),
        ([Throttled("429", status=429), Expired()], "expired", "expired", 2),
    ],
)
def test_outcomes(
    journal: Journal,
    method: str,
    failures: list[BaseException],
    of_get: str,
    of_post: str,
    tries: int,
) -> None:
    client = ScriptedClient({"/a": list(failures)})
    outcome = of_get if method == "GET" else of_post
    with delivery_of(journal, client) as delivery:
        delivery.submit([ApiRequest("/a", method)])
        delivery.drain()
    assert len(client.seen) == (1 if outcome == "unknown" and method == "POST" else tries)
    zeros = dict.fromkeys(Books.__slots__, 0)
    place = {"success": "succeeded", "unknown": "graveyard"}.get(outcome, outcome)
    assert journal.books() == Books(**{**zeros, "accepted": 1, place: 1})
    counted = Outcome.GRAVEYARD if outcome == "unknown" else Outcome(outcome)
    assert delivery.benchmark.outcomes == {counted: 1}
    for buried in journal.graveyard():
        assert buried.unknown is (outcome == "unknown")
        assert buried.tries == len(client.seen)
        assert buried.reason == str(failures[-1])


def test_a_stale_connection_is_no_try(journal: Journal) -> None:
    client = ScriptedClient({"/a": [stale(), *[Throttled("429")] * 4]})
    with delivery_of(journal, client) as delivery:
        delivery.submit([ApiRequest("/a")])
        delivery.drain()
    assert delivery.benchmark.outcomes == {Outcome.SUCCESS: 1}


def test_retries_go_ahead_of_new_requests(journal: Journal) -> None:
    client = ScriptedClient({"/0": [stale()]})
    delivery = delivery_of(journal, client, workers=1)
    delivery.submit([ApiRequest(f"/{number}") for number in range(5)])
    with delivery:
        delivery.drain()
    assert client.seen == ["/0", "/0", "/1", "/2", "/3", "/4"]


def test_expired_requests_never_reach_the_client(journal: Journal) -> None:
    now = [100.0]
    client = ScriptedClient()
    with Journal(journal.path, clock=lambda: now[0]) as own:
        delivery = delivery_of(own, client, clock=lambda: now[0])
        delivery.submit([ApiRequest("/late", ttl_s=1.0), ApiRequest("/never")])
        now[0] += 1.0
        with delivery:
            delivery.submit([ApiRequest("/in-time", ttl_s=1.0)])
            delivery.drain()
    assert sorted(client.seen) == ["/in-time", "/never"]
    assert delivery.benchmark.outcomes == {Outcome.SUCCESS: 2, Outcome.EXPIRED: 1}


def test_the_producer_waits_while_the_queue_is_full(journal: Journal) -> None:
    open_up = threading.Event()
    client = ScriptedClient()
    client.answer = lambda _pending: open_up.wait(30)  # type: ignore[assignment]
    delivery = delivery_of(journal, client, capacity=7, workers=2)
    requests = [ApiRequest(f"/{number}") for number in range(40)]
    with delivery:
        producer = threading.Thread(target=delivery.submit, args=(requests,))
        producer.start()
        until = time.monotonic() + 30
        while delivery.accepted < 9 and time.monotonic() < until:
            time.sleep(0.01)
        time.sleep(0.3)
        # Seven wait and two are under way; the journal has taken no more than that either.
        assert delivery.accepted == journal.books().accepted == 9
        assert delivery.line().queue == 7
        open_up.set()
        producer.join(30)
        delivery.drain()
    assert delivery.benchmark.outcomes == {Outcome.SUCCESS: 40}
    assert Counter(client.seen) == Counter(each.path for each in requests)


def test_a_stop_finishes_what_is_in_flight_and_keeps_the_rest(journal: Journal) -> None:
    stop, sent, answer = StopEvent(), threading.Event(), threading.Event()

    def wait(_pending: Pending) -> None:
        sent.set()
        answer.wait(30)

    client = ScriptedClient()
    client.answer = wait
    delivery = delivery_of(journal, client, ending=Ending(stop), workers=1)
    with suppress(Stopped), delivery:
        delivery.submit([ApiRequest(f"/{number}") for number in range(6)])
        assert sent.wait(30)
        stop.set()
        threading.Timer(0.2, answer.set).start()
        delivery.drain()
    assert client.seen == ["/0"]
    zeros = dict.fromkeys(Books.__slots__, 0)
    assert journal.books() == Books(**{**zeros, "accepted": 6, "succeeded": 1, "queued": 5})


def test_what_has_left_and_is_broken_off_has_an_unknown_outcome(journal: Journal) -> None:
    stop, sent, broken = StopEvent(), threading.Event(), threading.Event()

    def break_off(pending: Pending) -> None:
        sent.set()
        broken.wait(30)
        raise Stopped

    client = ScriptedClient()
    client.answer = break_off
    delivery = delivery_of(journal, client, ending=Ending(stop), workers=1, break_off=broken.set)
    with suppress(Stopped), delivery:
        delivery.submit([ApiRequest("/0"), ApiRequest("/1")])
        assert sent.wait(30)
        stop.set()
        delivery.drain()
    assert (journal.books().taken, journal.books().queued) == (1, 1)
    recovered = journal.recover(most_tries=5)
    assert (recovered.repeated, recovered.buried) == (1, 0)


def test_an_outage_ends_the_delivery_and_keeps_its_requests(journal: Journal) -> None:
    def fail(pending: Pending) -> None:
        pending.left = False
        raise OutageError("api.example.com", 10, 5)

    client = ScriptedClient()
    client.answer = fail
    delivery = delivery_of(journal, client)
    delivery.submit([ApiRequest(f"/{number}") for number in range(20)])
    with pytest.raises(OutageError), delivery:
        delivery.drain()
    assert journal.books().queued == journal.books().accepted == delivery.accepted > 0


def test_nothing_leaves_without_the_journal(journal: Journal) -> None:
    client = ScriptedClient()
    delivery = delivery_of(journal, client)
    delivery.submit([ApiRequest("/a")])
    journal._error = JournalUnavailable(journal.path, "the disk is full")
    with pytest.raises(JournalUnavailable), delivery:
        delivery.drain()
    assert client.seen == []


def test_an_error_of_the_program_ends_the_delivery(journal: Journal) -> None:
    def fail(_pending: Pending) -> None:
        raise ZeroDivisionError("a bug")

    client = ScriptedClient()
    client.answer = fail
    delivery = delivery_of(journal, client)
    delivery.submit([ApiRequest("/a")])
    with pytest.raises(HeadraceError, match="a bug"), delivery:
        delivery.drain()


def test_the_line_counts(journal: Journal) -> None:
    client = ScriptedClient({"/0": [RequestRefused("404")], "/1": [Throttled("429")]})
    with delivery_of(journal, client) as delivery:
        delivery.submit([ApiRequest(f"/{number}") for number in range(10)])
        delivery.drain()
    line = delivery.line()
    assert (line.successes, line.failures, line.buried, line.graveyard) == (9, 2, 1, 1)
    assert (line.queue, line.dead_letters, line.expired) == (0, 0, 0)
    assert line.mean_ms == pytest.approx(10, rel=0.01)
    assert line.p99_ms == pytest.approx(10, rel=0.03)
    assert "9 successes, 2 failures, 0 expired" in str(line)
    assert delivery.line().mean_ms is None, "the next interval has no answers"


def test_requests_of_earlier_runs_go_on(journal: Journal) -> None:
    journal.accept([ApiRequest(f"/{number}") for number in range(25)])
    client = ScriptedClient()
    with delivery_of(journal, client, capacity=3) as delivery:
        assert delivery.resume(journal.kept()) == 25
        delivery.drain()
    assert Counter(client.seen) == Counter(f"/{number}" for number in range(25))
    assert delivery.accepted == 0


def test_a_request_that_cannot_leave_in_time_takes_no_place(journal: Journal) -> None:
    """Ten wait for permits that come one a second: the next one has to live for ten more."""
    waiting, go_on = threading.Barrier(11), threading.Event()

    def wait(pending: Pending) -> None:
        if pending.request.ttl_s is None:
            pending.left = False
            waiting.wait(30)
            go_on.wait(30)

    client = ScriptedClient()
    client.answer = wait
    with delivery_of(journal, client, workers=11, per_s=lambda: 1.0) as delivery:
        delivery.submit([ApiRequest("/waits")] * 10)
        waiting.wait(30)
        delivery.submit([ApiRequest("/late", ttl_s=12.0), ApiRequest("/in-time", ttl_s=600.0)])
        until = time.monotonic() + 30
        while delivery.benchmark.ended_in_all < 2 and time.monotonic() < until:
            time.sleep(0.01)
        go_on.set()
        delivery.drain()
    assert "/late" not in client.seen
    assert "/in-time" in client.seen
    assert delivery.benchmark.outcomes == {Outcome.SUCCESS: 11, Outcome.EXPIRED: 1}
