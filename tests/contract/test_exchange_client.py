"""The client against a real HTTP server that misbehaves in every way we know of."""

import threading
import time
from datetime import UTC, datetime, timedelta
from email.utils import format_datetime
from functools import partial

import pytest

from headrace.exchange.client import ExchangeClient
from headrace.exchange.exceptions import Contradiction, StuckPage, UnknownProduct
from headrace.exchange.proof import check_reaches
from headrace.exchange.signing import Credentials
from headrace.quota import BreakerConfig, Phase, QuotaConfig, open_gate, parse_rates
from headrace.sim import (
    ApiKey,
    Cut,
    Drip,
    Empty,
    Fault,
    Hang,
    Html,
    Malformed,
    Reset,
    Respond,
    SimulatedExchange,
    Stuck,
)
from headrace.stopping import StopEvent, Stopped
from headrace.wire.client import LONGEST_RETRY_AFTER_S, RetryPolicy, parse_retry_after
from headrace.wire.exceptions import (
    BadAnswer,
    ConnectionFailed,
    RequestRefused,
    RetriesExhausted,
    ServerError,
    Throttled,
)
from headrace.wire.transport import USER_AGENT, Timeouts, Transport

QUICK = RetryPolicy(first_pause_s=0.01, longest_pause_s=0.05)


@pytest.fixture
def sim():
    with SimulatedExchange("BTC-USD:5000", "GONE-USD:0", seed=3) as exchange:
        yield exchange


@pytest.fixture
def gate(tmp_path):
    config = QuotaConfig(name="sim", rates=parse_rates("none"))
    with open_gate(tmp_path / "quota", config, BreakerConfig(cooldown_s=0.1)) as opened:
        yield opened


@pytest.fixture
def client(sim, gate):
    with Transport(sim.url, timeouts=Timeouts(2, 2, 3)) as transport:
        yield ExchangeClient(transport, gate, policy=QUICK)


def ids(page):
    return page.trades.column("trade_id").to_pylist()


def test_a_page_holds_the_newest_trades_below_the_cursor_exactly_as_sent(sim, client):
    page = client.page("BTC-USD", 2001)
    truth = sim.history("BTC-USD").columns(1001, 2000)
    assert ids(page) == list(truth.trade_id)
    for name in ("price", "size", "side"):
        assert page.trades.column(name).to_pylist() == list(getattr(truth, name))
    microseconds = page.trades.column("time").cast("int64").to_pylist()
    assert microseconds == list(truth.time_us)


def test_connections_are_kept(sim, client):
    for _ in range(20):
        client.page("BTC-USD", 2001, limit=1)
    assert client.stats.requests == 20
    assert client._transport.connections == 1


TROUBLES = {
    "html 502": Fault(action=Html(status=502), calls=3),
    "html 522": Fault(action=Html(status=522), calls=3),
    "html 200": Fault(action=Html(status=200), calls=3),
    "length too long": Fault(action=Cut(how="length"), calls=2),
    "connection closed": Fault(action=Cut(how="close"), calls=2),
    "chunked and cut": Fault(action=Cut(how="chunked"), calls=2),
    "reset": Fault(action=Reset(), calls=2),
    "503": Fault(action=Respond(status=503), calls=3),
    "429": Fault(action=Respond(status=429), calls=5),
    "message": Fault(action=Malformed(shape="message"), calls=3),
    "strings": Fault(action=Malformed(shape="strings"), calls=3),
    "null": Fault(action=Malformed(shape="null"), calls=3),
    "no price": Fault(action=Malformed(shape="priceless"), calls=3),
    "null row": Fault(action=Malformed(shape="null_row"), calls=3),
}


@pytest.mark.parametrize("trouble", TROUBLES)
def test_what_passes_is_asked_again_and_the_whole_page_comes(sim, client, trouble):
    sim.add_fault(TROUBLES[trouble])
    page = client.page("BTC-USD", 5001)
    assert ids(page) == list(range(4001, 5001))
    assert client.stats.requests == TROUBLES[trouble].calls + 1
    assert client.stats.retries == TROUBLES[trouble].calls


def test_html_is_never_quoted_at_length(sim, client):
    sim.add_fault(Fault(action=Html(status=200)))
    with pytest.raises(RetriesExhausted) as given_up:
        client.page("BTC-USD", 5001)
    assert isinstance(given_up.value.__cause__, BadAnswer)
    assert len(str(given_up.value)) < 300
    assert "BTC-USD after=5001" in str(given_up.value)


def test_the_kind_of_a_failure_is_its_status_not_its_digits(sim, client):
    sim.add_fault(Fault(action=Respond(status=500), cursor=4290))
    with pytest.raises(RetriesExhausted) as given_up:
        client.page("BTC-USD", 4290)
    assert isinstance(given_up.value.__cause__, ServerError)
    assert client.stats.throttled == 0
    with pytest.raises(UnknownProduct) as unknown:
        client.page("429-USD", 5001)
    assert unknown.value.status == 404


def test_the_exchanges_own_words_are_one_line_without_codes_for_a_terminal(sim, client):
    body = '{"message": "\\u001b[31mno\\nwonder \\u2028 ' + "x" * 500 + '"}'
    sim.add_fault(Fault(action=Respond(status=400, body=body)))
    with pytest.raises(RequestRefused) as refused:
        client.page("BTC-USD", 5001)
    assert str(refused.value).isprintable()
    assert len(str(refused.value)) < 300


@pytest.mark.parametrize("status", [202, 204, 206, 408, 425])
def test_a_success_without_a_page_and_a_request_put_off_are_asked_again(sim, client, status):
    sim.add_fault(Fault(action=Respond(status=status, body=""), calls=3))
    assert ids(client.page("BTC-USD", 5001)) == list(range(4001, 5001))
    assert client.stats.retries == 3


def test_a_redirect_is_not_followed_but_named(sim, client, gate):
    to = {"Location": "https://elsewhere.example/\x1b[31m" + "x" * 500}
    for status in (301, 302, 303, 307, 308):
        sim.add_fault(Fault(action=Respond(status=status, body="", headers=to), calls=1))
        with pytest.raises(RequestRefused, match=rf"redirect \({status} to 'https://else") as error:
            client.page("BTC-USD", 5001)
        assert "base_url" in error.value.hint
        assert "\x1b" not in str(error.value)
        assert len(str(error.value)) < 400
    assert client.stats.requests == 5
    assert gate.status().breaker.phase is Phase.CLOSED


ODD_PAUSES = ["inf", "nan", "-1", "0", "soon", "Mon, 01 Jan 2024 00:00:00 +99999999999999"]


@pytest.mark.parametrize("text", ODD_PAUSES)
def test_a_pause_that_makes_no_sense_is_a_plain_429(sim, tmp_path, text):
    headers = {"Retry-After": text, "X-RateLimit-Remaining": "0", "X-RateLimit-Reset": text}
    sim.add_fault(Fault(action=Respond(status=429, headers=headers), calls=2))
    config = QuotaConfig(name="sim", rates=parse_rates("1000/s"), retry_after_cap_s=0.2)
    with open_gate(tmp_path / "quota", config) as gate, Transport(sim.url) as transport:
        client = ExchangeClient(transport, gate, policy=QUICK)
        assert len(client.page("BTC-USD", 5001)) == 1000
        assert client.stats.throttled == 2


@pytest.mark.parametrize("status", [400, 401, 403, 404])
def test_what_stays_refused_is_asked_once_and_is_no_failure_of_the_server(
    sim, client, gate, status
):
    sim.add_fault(Fault(action=Respond(status=status)))
    for _ in range(4):
        with pytest.raises((RequestRefused, UnknownProduct), match=str(status)):
            client.page("BTC-USD", 5001)
    assert sim.stats()["requests"] == 4
    assert gate.status().breaker.failures == 0


def test_a_throttled_page_is_queued_again_up_to_ten_times(sim, client):
    sim.add_fault(Fault(action=Respond(status=429)))
    with pytest.raises(RetriesExhausted) as given_up:
        client.page("BTC-USD", 5001)
    assert isinstance(given_up.value.__cause__, Throttled)
    assert client.stats.requests == 10


def test_a_page_that_does_not_move_ends_after_a_few_tries(sim, client):
    sim.add_fault(Fault(action=Stuck()))
    client.page("BTC-USD", 5001)
    with pytest.raises(RetriesExhausted) as given_up:
        client.page("BTC-USD", 3001)
    assert isinstance(given_up.value.__cause__, StuckPage)
    assert "BTC-USD after=3001" in str(given_up.value)
    assert client.stats.requests <= 6


def test_an_empty_answer_where_trades_are_known_is_not_believed(sim, client):
    sim.add_fault(Fault(action=Empty(), calls=2))
    check = partial(check_reaches, exists=1)
    assert len(client.page("BTC-USD", 3001, check=check)) == 1000
    sim.add_fault(Fault(action=Empty()))
    with pytest.raises(RetriesExhausted) as given_up:
        client.page("BTC-USD", 3001, check=check)
    assert isinstance(given_up.value.__cause__, Contradiction)


@pytest.mark.parametrize("action", [Hang(), Drip(every_s=0.3), Drip(every_s=0.3, part="head")])
def test_a_request_has_a_total_time_limit(sim, gate, action):
    sim.add_fault(Fault(action=action))
    once = RetryPolicy(failed_attempts=1)
    with Transport(sim.url, timeouts=Timeouts(1, 1, 1.5)) as transport:
        client = ExchangeClient(transport, gate, policy=once)
        began = time.monotonic()
        with pytest.raises(RetriesExhausted, match=r"no complete answer|sent nothing"):
            client.page("BTC-USD", 5001)
        assert time.monotonic() - began < 30


def test_a_stop_breaks_off_what_is_in_flight(sim, gate):
    sim.add_fault(Fault(action=Hang()))
    stop = StopEvent()
    with Transport(sim.url, stop=stop, timeouts=Timeouts(600, 600, 600)) as transport:
        client = ExchangeClient(transport, gate, stop=stop)
        threading.Timer(0.3, stop.set).start()
        began = time.monotonic()
        with pytest.raises(Stopped):
            client.page("BTC-USD", 5001)
        assert time.monotonic() - began < 60


def test_no_answer_from_the_address_is_said_plainly(gate):
    with Transport("http://127.0.0.1:9") as transport:
        with pytest.raises(ConnectionFailed, match=r"no answer from http://127.0.0.1:9"):
            transport.check_reachable()
        with pytest.raises(ConnectionFailed):
            transport.get("/products")


def test_a_user_agent_is_always_sent(sim, client):
    # The simulated exchange refuses requests without one, as the real one does.
    assert len(client.page("BTC-USD", 11)) == 10
    assert USER_AGENT.startswith("headrace/")


def test_signed_requests_are_accepted_and_unsigned_ones_refused(gate):
    secret = "c2VjcmV0LW9mLXRoZS10ZXN0"
    key = ApiKey(key="k", secret=secret, passphrase="p")
    with SimulatedExchange("BTC-USD:10", keys=[key]) as sim, Transport(sim.url) as transport:
        signed = ExchangeClient(transport, gate, credentials=[Credentials("k", secret, "p")])
        assert ids(signed.page("BTC-USD", 11, limit=3)) == [8, 9, 10]
        with pytest.raises(RequestRefused, match="401"):
            ExchangeClient(transport, gate).page("BTC-USD", 11)
    assert secret not in repr(Credentials("k", secret, "p"))


def test_products_are_listed(sim, client):
    assert [product.id for product in client.products()] == ["BTC-USD", "GONE-USD"]


def test_no_cursor_below_one_is_ever_sent(sim, client):
    with pytest.raises(ValueError, match="below 1"):
        client.page("BTC-USD", 0)
    assert sim.stats()["requests"] == 0


def test_retry_after_in_all_its_forms():
    now = datetime(2026, 1, 1, tzinfo=UTC)

    def read(text):
        return parse_retry_after(text, clock=now.timestamp)

    assert read("7") == 7
    assert read(format_datetime(now + timedelta(seconds=30), usegmt=True)) == 30
    assert read("100000") == LONGEST_RETRY_AFTER_S
    no_zone = "Mon, 01 Jan 2024 00:00:00 +99999999999999"
    past = format_datetime(now - timedelta(hours=1))
    for nothing in (None, "0", "-5", "soon", "nan", "inf", no_zone, past):
        assert read(nothing) is None
