"""What opens the breaker of an exchange, and what does not: one bad page, or errors of our own."""

import errno
import multiprocessing
import socket
import threading

import pytest

from headrace.exchange.client import ExchangeClient
from headrace.quota import BreakerConfig, OutageError, Phase, QuotaConfig, open_gate, parse_rates
from headrace.sim import Fault, Html, Respond, SimulatedExchange
from headrace.wire import Unreachable
from headrace.wire.client import RetryPolicy
from headrace.wire.exceptions import ConnectionFailed, LocalFailure, RetriesExhausted
from headrace.wire.transport import Timeouts, Transport

QUICK = RetryPolicy(first_pause_s=0.01, longest_pause_s=0.05)
NO_RATES = QuotaConfig(name="sim", rates=parse_rates("none"))
BAD = 3_001


@pytest.fixture
def sim():
    with SimulatedExchange("BTC-USD:9000", "ETH-USD:3000", seed=3) as exchange:
        yield exchange


@pytest.fixture
def gate(tmp_path):
    config = BreakerConfig(cooldown_s=0.05, cooldown_cap_s=0.05)
    with open_gate(tmp_path / "quota", NO_RATES, config, outage_limit_s=0.5) as opened:
        yield opened


@pytest.fixture
def client(sim, gate):
    with Transport(sim.url, timeouts=Timeouts(2, 2, 3)) as transport:
        yield ExchangeClient(transport, gate, policy=QUICK)


def failures(gate):
    return gate.session.breaker.state().failures


def bad_page(sim, cursor=BAD, **action):
    sim.add_fault(Fault(action=Respond(**{"status": 500, **action}), cursor=cursor))


def test_a_page_that_always_fails_opens_nothing_and_is_named_with_the_servers_words(
    sim, client, gate
):
    bad_page(sim, body="<h1>Internal\n  error</h1> in row 17")
    client.page("BTC-USD", 9_001)
    opened = []
    gate.on_breaker_change(opened.append)
    for _ in range(3):
        with pytest.raises(RetriesExhausted) as given_up:
            client.page("BTC-USD", BAD)
        assert f"BTC-USD after={BAD}: given up after 6 attempts" in str(given_up.value)
        assert "500: <h1>Internal error</h1> in row 17" in str(given_up.value)
    assert opened == []
    # The attempts of the page, and one question whether anything else is answered.
    assert client.stats.requests == 1 + 3 * (QUICK.failed_attempts + 1)


def test_where_others_are_answered_meanwhile_a_bad_page_costs_no_other_request(sim, client, gate):
    bad_page(sim)
    client.page("BTC-USD", 9_001)
    before = client.ending.stop.sleep

    def sleep(seconds):
        before(seconds)
        client.page("ETH-USD", 2_001)

    client.ending.stop.sleep = sleep
    with pytest.raises(RetriesExhausted):
        client.page("BTC-USD", BAD)
    assert client.stats.requests_for("BTC-USD") == 1 + QUICK.failed_attempts


def test_five_bad_pages_open_it_and_the_probe_asks_for_what_is_known_to_work(sim, client, gate):
    client.page("BTC-USD", 9_001)
    changes = []
    gate.on_breaker_change(changes.append)
    walkers = []
    for cursor in range(2_001, 8_002, 1_000):
        bad_page(sim, cursor)
        asked = threading.Thread(target=expect_failure, args=(client, cursor))
        walkers.append(asked)
        asked.start()
    for walker in walkers:
        walker.join()
    assert len(client.page("BTC-USD", 9_001)) == 1_000
    assert gate.status().breaker.phase is Phase.CLOSED
    assert changes[0].after is Phase.OPEN
    # It opened once for each time that five were the only ones asked, and each time the next three
    # probes closed it: none of them was one of the bad pages.
    assert [change.after for change in changes] == [
        Phase.OPEN, Phase.HALF_OPEN, Phase.CLOSED,
    ] * (len(changes) // 3)  # fmt: skip


def expect_failure(client, cursor):
    with pytest.raises(RetriesExhausted):
        client.page("BTC-USD", cursor)


@pytest.mark.parametrize("action", [Respond(status=503), Html(status=200)], ids=["503", "html"])
def test_an_outage_that_one_walker_meets_opens_it_and_ends_at_the_limit(sim, client, gate, action):
    client.page("BTC-USD", 9_001)
    before = client.stats.requests
    opened_at = []
    gate.on_breaker_change(lambda _change: opened_at.append(client.stats.requests - before))
    sim.add_fault(Fault(action=action, endpoint="any"))
    with pytest.raises(OutageError):
        client.page("BTC-USD", 8_001)
    assert gate.status().breaker.phase is not Phase.CLOSED
    assert opened_at[0] <= 6


def test_an_outage_costs_no_attempts_of_the_page_that_met_it(sim, gate):
    patience = RetryPolicy(failed_attempts=2, first_pause_s=0.01, longest_pause_s=0.05)
    with Transport(sim.url) as transport:
        client = ExchangeClient(transport, gate, policy=patience)
        client.page("BTC-USD", 9_001)
        number = sim.add_fault(Fault(action=Respond(status=503), endpoint="any"))
        gate.on_breaker_change(lambda change: change.pause_s and sim.remove_fault(number))
        assert len(client.page("BTC-USD", 8_001)) == 1_000
    assert gate.status().breaker.phase is Phase.CLOSED


def test_a_host_without_a_connection_is_out_whatever_is_asked(gate):
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        with Transport(f"http://127.0.0.1:{taken.getsockname()[1]}") as transport:
            client = ExchangeClient(transport, gate, policy=QUICK)
            with pytest.raises((OutageError, RetriesExhausted)):
                client.page("BTC-USD", 1_001)
    assert gate.status().breaker.phase is not Phase.CLOSED


def _ingest(url, folder, ready, over, results):
    """Another process at the same exchange: asks until the first has given up."""
    with open_gate(folder, NO_RATES) as gate, Transport(url) as transport:
        client = ExchangeClient(transport, gate)
        asked = 0
        while asked < 5 or not over.is_set():
            client.page(("BTC-USD", "ETH-USD")[asked % 2], None)
            asked += 1
            ready.set()
        results.put((asked, client.stats.retries, gate.counters.waited_s["breaker"]))


def test_other_processes_wait_for_nothing_while_a_page_fails(sim, client, gate, tmp_path):
    bad_page(sim)
    context = multiprocessing.get_context("spawn")
    ready, over, results = context.Event(), context.Event(), context.Queue()
    other = context.Process(
        target=_ingest, args=(sim.url, tmp_path / "quota", ready, over, results)
    )
    other.start()
    assert ready.wait(60)
    try:
        for _ in range(3):
            expect_failure(client, BAD)
    finally:
        over.set()
    asked, retries, waited_s = results.get(timeout=60)
    other.join()
    assert (asked >= 5, retries, waited_s) == (True, 0, 0.0)
    assert gate.status().breaker.phase is Phase.CLOSED


LOCAL = {
    "files": OSError(errno.EMFILE, "Too many open files"),
    "ports": OSError(errno.EADDRNOTAVAIL, "Cannot assign requested address"),
    "memory": MemoryError(),
    "a bug": ValueError("the header CB-ACCESS-PASSPHRASE cannot be sent"),
}


@pytest.mark.parametrize("trouble", LOCAL)
def test_errors_of_this_machine_are_none_of_the_servers(sim, client, gate, trouble, monkeypatch):
    client.page("BTC-USD", 9_001)
    error = LOCAL[trouble]

    def ask(*_arguments, **_options):
        if isinstance(error, OSError):
            raise Unreachable(error.strerror) from error
        raise error

    monkeypatch.setattr(client._transport._pool, "ask", ask)
    for _ in range(6):
        with pytest.raises((RetriesExhausted, MemoryError, ValueError)) as failed:
            client.page("BTC-USD", 8_001)
    if isinstance(error, OSError):
        assert isinstance(failed.value.__cause__, LocalFailure)
        assert not isinstance(failed.value.__cause__, ConnectionFailed)
    assert (gate.status().breaker.phase, failures(gate)) == (Phase.CLOSED, 0)
    monkeypatch.undo()
    assert len(client.page("BTC-USD", 8_001)) == 1_000
