"""The one loop of every client: attempts, what counts, what goes again at once, what ends it."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from headrace.quota import Gate, Lane, QuotaConfig, open_gate
from headrace.stopping import StopEvent, Stopped
from headrace.wire.client import HttpClient, Request, RetryPolicy
from headrace.wire.exceptions import (
    BadAnswer,
    ConnectionFailed,
    ProxyRefusal,
    RequestError,
    RequestRefused,
    RetriesExhausted,
    ServerError,
    Throttled,
    TransientError,
)
from headrace.wire.message import Headers
from headrace.wire.transport import Compose, Response

QUICK = RetryPolicy(first_pause_s=0.001, longest_pause_s=0.001)


@pytest.fixture
def gate(tmp_path: Path) -> Iterator[Gate]:
    config = QuotaConfig(name="wire", rates=())
    with open_gate(tmp_path, config) as opened:
        yield opened


class Client(HttpClient):
    """A client whose transport fails as scripted, and then answers."""

    def __init__(self, gate: Gate, *failures: RequestError, outages: int = 0) -> None:
        transport: Any = SimpleNamespace(send_late=self._sent)
        super().__init__(transport, gate, QUICK)
        self.failures = list(failures)
        self.outages = outages
        self.seen: list[bool] = []

    def _sent(self, compose: Compose, *, fresh: bool) -> Response:
        compose()
        self.seen.append(fresh)
        if self.failures and isinstance(self.failures[0], ConnectionFailed):
            raise self.failures.pop(0)
        return Response(200, Headers(), b"", 0.0)

    def read(self, _response: Response) -> str:
        if self.failures:
            raise self.failures.pop(0)
        return "answered"

    def is_outage(self, request: Request, error: TransientError) -> bool:
        self.outages -= 1
        return self.outages >= 0


def asked(client: Client, **about: Any) -> str:
    return client.ask(Request("/a", StopEvent(), **about), client.read)


@pytest.mark.parametrize(
    ("kind", "attempts"), [(Throttled, 10), (ServerError, 6), (ConnectionFailed, 6), (BadAnswer, 4)]
)
def test_each_kind_of_failure_has_its_attempts(gate, kind, attempts):
    client = Client(gate, *[kind("it failed") for _ in range(attempts - 1)])
    assert asked(client) == "answered"
    client = Client(gate, *[kind("it failed") for _ in range(attempts)])
    with pytest.raises(RetriesExhausted, match=f"after {attempts} attempts: it failed") as given_up:
        asked(client, about="BTC-USD", cursor=7)
    assert (given_up.value.product, given_up.value.cursor) == ("BTC-USD", 7)
    assert type(given_up.value.__cause__) is kind
    assert (client.stats.requests, client.stats.retries) == (attempts, attempts - 1)


def test_what_another_attempt_would_not_change_is_sent_once(gate):
    certificate = ConnectionFailed("the certificate has expired")
    certificate.refuses_us = True
    for error in (RequestRefused("no", status=400), ProxyRefusal("no"), certificate):
        client = Client(gate, error)
        with pytest.raises(type(error)) as refused:
            asked(client, about="BTC-USD")
        assert refused.value.product == "BTC-USD"
        assert client.stats.requests == 1


def test_what_must_not_be_repeated_is_sent_again_only_after_429(gate):
    client = Client(gate, Throttled("429"))
    assert asked(client, repeatable=False) == "answered"
    stale = ConnectionFailed("closed without an answer")
    stale.stale = True
    for error in (ServerError("503"), stale):
        client = Client(gate, error)
        with pytest.raises(RetriesExhausted, match="after 1 attempts"):
            asked(client, repeatable=False)


def test_a_stale_connection_costs_no_attempt_and_the_next_one_is_fresh(gate):
    def stale() -> ConnectionFailed:
        error = ConnectionFailed("closed without an answer")
        error.stale = True
        return error

    client = Client(gate, *[stale() for _ in range(8)])
    request = Request("/a", StopEvent(), lane=Lane.INGEST)
    assert client.ask(request, client.read) == "answered"
    assert client.seen == [False] + [True] * 8
    assert (request.failures.total(), request.lane) == (0, Lane.RETRY)


def test_attempts_of_an_outage_do_not_count(gate):
    client = Client(gate, *[ServerError("503") for _ in range(20)], outages=15)
    assert asked(client) == "answered"
    client = Client(gate, *[ServerError("503") for _ in range(21)], outages=15)
    with pytest.raises(RetriesExhausted, match="after 21 attempts"):
        asked(client)


def test_a_stop_ends_the_pause(gate):
    client = Client(gate, ServerError("503"))
    client._policy = RetryPolicy(first_pause_s=3600, longest_pause_s=3600)
    request = Request("/a", StopEvent())

    def read(response: Response) -> str:
        request.stop.set()
        return client.read(response)

    with pytest.raises(Stopped):
        client.ask(request, read)
    assert client.stats.requests == 1
