"""A server that refuses who asks, whatever is asked: the run ends after a few requests."""

import ssl
import threading
from concurrent.futures import ThreadPoolExecutor

import pytest

from headrace.exchange.client import REFUSALS_IN_A_ROW, ExchangeClient
from headrace.exchange.exceptions import UnknownProduct
from headrace.quota import Phase, QuotaConfig, open_gate, parse_rates
from headrace.sim import Fault, Respond, SimulatedExchange
from headrace.stopping import StopEvent, Stopped
from headrace.wire import Unreachable
from headrace.wire.exceptions import (
    AccessDenied,
    ConnectionFailed,
    RefusedThroughout,
    RequestRefused,
)
from headrace.wire.transport import Transport

BANNED = "<html><title>Access denied</title> Error 1006"


@pytest.fixture
def sim():
    with SimulatedExchange("BTC-USD:90000", "ETH-USD:3000", seed=3) as exchange:
        yield exchange


@pytest.fixture
def gate(tmp_path):
    config = QuotaConfig(name="sim", rates=parse_rates("none"))
    with open_gate(tmp_path / "quota", config) as opened:
        yield opened


@pytest.fixture
def stop():
    return StopEvent()


@pytest.fixture
def client(sim, gate, stop):
    with Transport(sim.url) as transport:
        yield ExchangeClient(transport, gate, stop=stop)


def ask(client, cursors, threads=1):
    """The error of each request."""

    def one(cursor):
        try:
            client.page("BTC-USD", cursor, limit=1)
        except (RequestRefused, RefusedThroughout, ConnectionFailed, Stopped) as error:
            return error
        return None

    with ThreadPoolExecutor(threads) as pool:
        return list(pool.map(one, cursors))


@pytest.mark.parametrize("status", [401, 403, 407, 451])
@pytest.mark.parametrize("threads", [1, 8])
def test_the_run_ends_after_what_is_in_flight_and_five(sim, client, gate, status, threads):
    assert ask(client, [1_001]) == [None]
    sim.add_fault(Fault(action=Respond(status=status, body=BANNED)))
    errors = ask(client, range(2_001, 80_001, 1_000), threads)
    refused = sim.stats()["by_status"][str(status)]
    assert REFUSALS_IN_A_ROW <= refused <= REFUSALS_IN_A_ROW + threads
    cause = client.ending.cause
    assert isinstance(cause, RefusedThroughout)
    assert f"({status}: <html><title>Access denied</title> Error 1006)" in str(cause)
    # One message from then on, and nothing is asked.
    assert sum(error is cause for error in errors) >= len(errors) - REFUSALS_IN_A_ROW
    assert client.ending.stop.is_set()
    assert gate.status().breaker.phase is Phase.CLOSED


def test_a_success_in_between_starts_the_count_again(sim, client):
    sim.add_fault(Fault(action=Respond(status=403), cursor=2_001))
    for _ in range(3):
        errors = ask(client, [2_001] * (REFUSALS_IN_A_ROW - 1) + [3_001])
        assert [type(error) for error in errors] == [AccessDenied] * 4 + [type(None)]
    assert client.ending.cause is None


@pytest.mark.parametrize("status", [400, 404])
def test_refusals_of_a_product_end_no_run(sim, client, status):
    sim.add_fault(Fault(action=Respond(status=status), product="ETH-USD"))
    for _ in range(3 * REFUSALS_IN_A_ROW):
        with pytest.raises((RequestRefused, UnknownProduct)):
            client.page("ETH-USD", None)
    assert client.ending.cause is None
    assert ask(client, [2_001]) == [None]


def test_a_certificate_that_fails_is_a_refusal_and_not_repeated(client, gate, monkeypatch):
    asked = []

    def refuse(*_arguments, **_options):
        asked.append(1)
        cause = ssl.SSLCertVerificationError(1, "certificate has expired")
        raise Unreachable(str(cause), insecure=True) from cause

    monkeypatch.setattr(client._transport._pool, "ask", refuse)
    errors = ask(client, range(2_001, 30_001, 1_000))
    assert len(asked) == REFUSALS_IN_A_ROW
    assert "certificate has expired" in str(errors[-1])
    assert isinstance(errors[-1], RefusedThroughout)
    assert (gate.status().breaker.phase, gate.status().breaker.failures) == (Phase.CLOSED, 0)


def test_what_waits_for_a_permit_is_ended_with_the_cause_and_a_stop_stays_one(sim, tmp_path, stop):
    config = QuotaConfig(name="slow", rates=parse_rates("2/h"), burst=2)
    with open_gate(tmp_path / "slow", config) as gate, Transport(sim.url) as transport:
        client = ExchangeClient(transport, gate, stop=stop)
        assert ask(client, [1_001, 2_001]) == [None, None]
        cause = RefusedThroughout("host", AccessDenied("refused"), 5)
        threading.Timer(0.2, client.ending.end, [cause]).start()
        assert ask(client, [3_001]) == [cause]
        other = ExchangeClient(transport, gate, stop=stop)
        threading.Timer(0.2, stop.set).start()
        assert [type(error) for error in ask(other, [3_001])] == [Stopped]
