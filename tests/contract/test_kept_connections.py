"""A network that forgets kept connections costs nothing but a fresh one, and opens no breaker."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Literal
from urllib.parse import urlsplit

import pytest
from pydantic import SecretStr

from headrace.exchange.client import ExchangeClient
from headrace.lake.s3 import S3Store
from headrace.looker.client import LookerConnection, open_client
from headrace.quota import BreakerConfig, Gate, Phase, QuotaConfig, open_gate, parse_rates
from headrace.sim import Fault, Respond, SimulatedExchange
from headrace.sim.looker import SimulatedLooker
from headrace.stopping import StopEvent
from headrace.wire.client import RetryPolicy
from headrace.wire.exceptions import RetriesExhausted
from headrace.wire.transport import Timeouts, Transport
from tests.s3_proxy import s3_proxy
from tests.services_fixtures import BUCKET, settings_for
from tests.support.forgetful import ForgetfulGateway
from tests.support.looker import QUICK as QUICK_LOOKER
from tests.support.looker import SECRET

Then = Literal["reset", "silence"]

#: Silence ends after `read_s`.
LIMITS = Timeouts(connect_s=2.0, read_s=0.4, total_s=3.0)
QUICK = RetryPolicy(first_pause_s=0.01, longest_pause_s=0.05)
KEPT = 6


@pytest.fixture(params=["reset", "silence"])
def then(request: pytest.FixtureRequest) -> Then:
    return request.param


@pytest.fixture
def gate(tmp_path: Path) -> Iterator[Gate]:
    """One failure opens the breaker, and the second pause is an hour."""
    breaker = BreakerConfig(failures=1, cooldown_s=0.5, cooldown_growth=7200.0)
    config = QuotaConfig(name="sim", rates=parse_rates("none"))
    with open_gate(tmp_path / "quota", config, breaker, outage_limit_s=10.0) as opened:
        yield opened


def port_of(url: str) -> int:
    return urlsplit(url).port or 0


def at_once(count: int, ask: object) -> None:
    """Call `ask` in so many threads at the same time, so that so many connections are kept."""
    ready = threading.Barrier(count)

    def one() -> None:
        ready.wait()
        ask()  # type: ignore[operator]

    threads = [threading.Thread(target=one) for _ in range(count)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()


def test_an_exchange_behind_a_gateway_that_forgets_never_counts_as_failing(
    gate: Gate, then: Then
) -> None:
    with (
        SimulatedExchange("BTC-USD:5000", seed=3) as sim,
        ForgetfulGateway(port_of(sim.url), then) as gateway,
        Transport(gateway.url, timeouts=LIMITS) as transport,
    ):
        client = ExchangeClient(transport, gate, policy=QUICK)
        at_once(KEPT, lambda: client.page("BTC-USD", 2001))
        gateway.forget()

        page = client.page("BTC-USD", 2001)

    assert page.last_id == 2000
    assert gate.status().breaker.phase is Phase.CLOSED
    # The others were forgotten with it: they are not tried one after the other.
    assert gateway.lost == 1


def test_a_breaker_closes_after_one_pause_behind_a_gateway_that_forgets(
    gate: Gate, then: Then
) -> None:
    with (
        SimulatedExchange("BTC-USD:5000", seed=3) as sim,
        ForgetfulGateway(port_of(sim.url), then) as gateway,
        Transport(gateway.url, timeouts=LIMITS) as transport,
    ):
        client = ExchangeClient(transport, gate, policy=QUICK)
        at_once(KEPT, lambda: client.page("BTC-USD", 2001))
        sim.add_fault(Fault(action=Respond(status=503), calls=1))
        once = ExchangeClient(transport, gate, policy=RetryPolicy(failed_attempts=1))
        with pytest.raises(RetriesExhausted):
            once.page("BTC-USD", 2001)
        assert gate.status().breaker.phase is Phase.OPEN
        gateway.forget()

        for cursor in (4001, 3001, 2001):  # the second pause would be an hour
            client.page("BTC-USD", cursor)

    assert gate.status().breaker.phase is Phase.CLOSED
    assert gateway.lost == 0


def test_every_attempt_over_a_fresh_connection_has_a_permit_of_its_own(
    tmp_path: Path, then: Then
) -> None:
    config = QuotaConfig(name="sim", rates=parse_rates("100/s"))
    with (
        SimulatedExchange("BTC-USD:5000", seed=3) as sim,
        ForgetfulGateway(port_of(sim.url), then) as gateway,
        Transport(gateway.url, timeouts=LIMITS) as transport,
        open_gate(tmp_path / "counted", config) as counted,
    ):
        client = ExchangeClient(transport, counted, policy=QUICK)
        client.page("BTC-USD", 2001)
        gateway.forget()
        client.page("BTC-USD", 2001)

        assert counted.counters.admitted == client.stats.requests == 3
        assert counted.status().breaker.failures == 0


def test_a_server_that_says_nothing_on_a_fresh_connection_is_a_failure(gate: Gate) -> None:
    with SimulatedExchange("BTC-USD:5000", seed=3) as sim:
        gateway = ForgetfulGateway(port_of(sim.url), "silence")
        with gateway, Transport(gateway.url, timeouts=LIMITS) as transport:
            client = ExchangeClient(transport, gate, policy=RetryPolicy(failed_attempts=1))
            client.page("BTC-USD", 2001)
            gateway.forget()
            gateway.dead = True

            with pytest.raises(RetriesExhausted, match="sent nothing"):
                client.page("BTC-USD", 2001)

    assert gate.status().breaker.phase is Phase.OPEN


def test_a_looker_behind_a_gateway_that_forgets_never_counts_as_failing(
    gate: Gate, then: Then
) -> None:
    with (
        SimulatedLooker() as sim,
        ForgetfulGateway(port_of(sim.url), then) as gateway,
        open_client(
            LookerConnection(gateway.url, "headrace", SecretStr(SECRET), timeouts=LIMITS),
            gate,
            policy=QUICK_LOOKER,
            stop=StopEvent(),
        ) as client,
    ):
        client.login()
        at_once(KEPT, lambda: client.item("look", "1"))
        gateway.forget()

        assert client.item("look", "1")
        assert gateway.lost == 1
        client.send("PATCH", "/looks/1", b'{"title": "New"}')

    assert gate.status().breaker.phase is Phase.CLOSED


def test_s3_reads_and_writes_go_on_behind_a_gateway_that_forgets(moto_url: str, then: Then) -> None:
    with (
        s3_proxy(moto_url) as keeping,  # moto itself keeps no connection
        ForgetfulGateway(port_of(keeping.url), then) as gateway,
    ):
        store = S3Store(BUCKET, then, settings_for(gateway.url, read_timeout_s=0.4))
        store.put("a", b"content")
        at_once(KEPT, lambda: store.tail("a", 3))
        at_once(KEPT, lambda: store.get("a"))
        gateway.forget()

        assert store.tail("a", 3) == b"ent"
        assert [entry.key for entry in store.entries("")] == ["a"]
        assert store.get("a") == b"content"

        # One of the reader's connections and one of boto3's, not each that was kept.
        assert gateway.lost == 2
