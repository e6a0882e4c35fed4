"""The simulated exchange on the wire: cuts, resets, silence, drips, closed doors, delays."""

from __future__ import annotations

import json
import socket
import threading
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from http.client import HTTPConnection, IncompleteRead, RemoteDisconnected

import pytest

from headrace.sim import (
    ApiKey,
    Fault,
    LatencySource,
    LogNormal,
    Refuse,
    Respond,
    SimulatedExchange,
    SlidingWindow,
    TokenBucket,
)

PAGE = "/products/BTC-USD/trades"
AGENT = {"User-Agent": "tests"}


@pytest.fixture(scope="module")
def running() -> Iterator[SimulatedExchange]:
    with SimulatedExchange("BTC-USD:2500", seed=7) as sim:
        yield sim


@pytest.fixture
def sim(running: SimulatedExchange) -> Iterator[SimulatedExchange]:
    running.reset_log()
    yield running
    running.clear_faults()


def connect(sim: SimulatedExchange, timeout_s: float = 10) -> HTTPConnection:
    return HTTPConnection("127.0.0.1", sim.port, timeout=timeout_s)


def fetch(sim: SimulatedExchange, target: str = PAGE, timeout_s: float = 10) -> tuple[int, bytes]:
    wire = connect(sim, timeout_s)
    try:
        return ask(wire, target)
    finally:
        wire.close()


def ask(wire: HTTPConnection, target: str = PAGE) -> tuple[int, bytes]:
    wire.request("GET", target, headers=AGENT)
    answer = wire.getresponse()
    return answer.status, answer.read()


def raw(sim: SimulatedExchange, sent: bytes) -> bytes:
    """Everything the server says until it closes the connection."""
    received = b""
    with socket.create_connection(("127.0.0.1", sim.port), timeout=10) as wire:
        wire.sendall(sent)
        while piece := wire.recv(65536):
            received += piece
    return received


def test_a_body_shorter_than_its_length(sim: SimulatedExchange) -> None:
    sim.add_fault("cut,how=length,at_byte=5000")
    with pytest.raises(IncompleteRead) as caught:
        fetch(sim)
    assert len(caught.value.partial) == 5000
    assert caught.value.expected > 0


def test_a_body_without_length_that_just_ends(sim: SimulatedExchange) -> None:
    sim.add_fault("cut,how=close,at_byte=5000")
    status, body = fetch(sim)
    assert (status, len(body)) == (200, 5000)
    with pytest.raises(json.JSONDecodeError):
        json.loads(body)


def test_a_chunked_body_without_its_end(sim: SimulatedExchange) -> None:
    sim.add_fault("cut,how=chunked,at_byte=5000")
    with pytest.raises(IncompleteRead) as caught:
        fetch(sim)
    assert len(caught.value.partial) == 5000


@pytest.mark.parametrize("how", ["length", "chunked"])
def test_a_cut_before_the_first_byte(sim: SimulatedExchange, how: str) -> None:
    sim.add_fault(f"cut,how={how},at_byte=0")
    with pytest.raises(IncompleteRead):
        fetch(sim)


def test_a_short_body_is_cut_all_the_same(sim: SimulatedExchange) -> None:
    sim.add_fault("cut,how=length")
    with pytest.raises(IncompleteRead):
        fetch(sim, f"{PAGE}?after=3")


@pytest.mark.parametrize("at_byte", [0, 300])
def test_a_reset(sim: SimulatedExchange, at_byte: int) -> None:
    sim.add_fault(f"reset,at_byte={at_byte},calls=1")
    with pytest.raises((ConnectionResetError, IncompleteRead)):
        fetch(sim)
    assert fetch(sim)[0] == 200
    assert [arrival.status for arrival in sim.arrivals()] == [None, 200]


def test_silence_for_ever_holds_up_no_other_request(sim: SimulatedExchange) -> None:
    sim.add_fault("hang,calls=1")
    with pytest.raises(TimeoutError):
        fetch(sim, timeout_s=0.2)
    assert fetch(sim)[0] == 200


def test_silence_may_end_in_a_closed_connection(sim: SimulatedExchange) -> None:
    sim.add_fault("hang,for_s=0.05")
    with pytest.raises(RemoteDisconnected):
        fetch(sim)


@pytest.mark.parametrize("part", ["head", "body"])
def test_a_drip_is_complete_in_the_end(sim: SimulatedExchange, part: str) -> None:
    whole = fetch(sim, f"{PAGE}?after=2")
    sim.add_fault(f"drip,every_s=0.0005,part={part}")
    assert fetch(sim, f"{PAGE}?after=2") == whole


def test_a_slow_drip_keeps_a_read_timeout_from_firing(sim: SimulatedExchange) -> None:
    sim.add_fault("drip,every_s=0.05,part=head")
    began = time.monotonic()
    with socket.create_connection(("127.0.0.1", sim.port), timeout=10) as wire:
        wire.sendall(f"GET {PAGE} HTTP/1.1\r\nUser-Agent: tests\r\n\r\n".encode())
        assert [wire.recv(1) for _ in range(8)] == [b"H", b"T", b"T", b"P", b"/", b"1", b".", b"1"]
    assert time.monotonic() - began >= 0.3


def test_any_answer_with_any_headers(sim: SimulatedExchange) -> None:
    body = '{"message":"Slow rate limit exceeded"}'
    sim.add_fault(
        Fault(action=Respond(status=429, body=body, headers={"Retry-After": "3"}), cursor=4290017)
    )
    assert fetch(sim)[0] == 200
    wire = connect(sim)
    wire.request("GET", f"{PAGE}?after=4290017", headers=AGENT)
    answer = wire.getresponse()
    assert (answer.status, answer.headers["Retry-After"]) == (429, "3")
    assert answer.read() == body.encode()
    wire.close()


@pytest.mark.parametrize(
    ("shape", "parsed"),
    [("message", {"message": "rate limit exceeded"}), ("strings", ["error"]), ("null", None)],
)
def test_wrong_shapes_with_a_200(sim: SimulatedExchange, shape: str, parsed: object) -> None:
    sim.add_fault(f"malformed,shape={shape}")
    status, body = fetch(sim)
    assert (status, json.loads(body)) == (200, parsed)


def test_pages_with_one_bad_row(sim: SimulatedExchange) -> None:
    sim.add_fault("malformed,shape=priceless,calls=1")
    sim.add_fault("malformed,shape=null_row")
    assert "price" not in json.loads(fetch(sim)[1])[0]
    assert json.loads(fetch(sim)[1])[1] is None


@pytest.mark.parametrize("status", [502, 520, 522, 200])
def test_html_pages(sim: SimulatedExchange, status: int) -> None:
    sim.add_fault(f"html,status={status}")
    answered, body = fetch(sim)
    assert answered == status
    assert body.startswith(b"<html>")


def test_a_shut_door_refuses_and_opens_again_on_the_same_port(sim: SimulatedExchange) -> None:
    kept = connect(sim)
    assert ask(kept)[0] == 200
    port = sim.port
    number = sim.add_fault(Fault(action=Refuse()))
    with pytest.raises(ConnectionError):
        ask(kept)
    kept.close()
    with pytest.raises(ConnectionRefusedError):
        fetch(sim)
    sim.remove_fault(number)
    assert fetch(sim)[0] == 200
    assert sim.port == port


def test_an_outage_by_the_clock() -> None:
    now = [100.0]
    refused = Fault(action=Refuse(), between_s=(20, 30))
    with SimulatedExchange(
        "BTC-USD:5", clock=lambda: now[0], faults=["html,between_s=10:20", refused]
    ) as sim:
        assert fetch(sim)[0] == 200
        now[0] = 110.0
        assert fetch(sim)[0] == 502
        now[0] = 120.0
        refusals = 0
        deadline = time.monotonic() + 5
        while not refusals and time.monotonic() < deadline:
            try:
                fetch(sim)
            except ConnectionError:
                refusals += 1
        assert refusals
        now[0] = 130.0
        while time.monotonic() < deadline:
            try:
                assert fetch(sim)[0] == 200
                break
            except ConnectionError:
                time.sleep(0.01)
        else:
            pytest.fail("the door stayed shut")


def test_latency_is_the_models_and_delays_no_other_request() -> None:
    model = LogNormal(p50=0.2, p95=0.3)
    with SimulatedExchange("BTC-USD:5", latency=model, seed=3) as sim:
        began = time.monotonic()
        with ThreadPoolExecutor(20) as pool:
            assert set(pool.map(lambda _: fetch(sim)[0], range(20))) == {200}
        took_s = time.monotonic() - began
        source = LatencySource(model, seed=3)
        delays_s = [source.delay_s(number) for number in range(1, 21)]
        assert took_s >= max(delays_s)
        assert sim.stats()["most_in_flight"] > 1


def test_the_way_there_counts_before_the_limit_and_the_way_back_after() -> None:
    for inbound in (0.0, 1.0):
        with SimulatedExchange("BTC-USD:5", latency=f"constant:s=0.2,inbound={inbound}") as sim:
            began = time.monotonic()
            fetch(sim)
            assert time.monotonic() - began >= 0.2
            (arrival,) = sim.arrivals()
            assert arrival.counted_s is not None
            under_way_s = arrival.counted_s - arrival.arrived_s
            assert under_way_s == 0 if inbound == 0 else under_way_s >= 0.19


def test_limits_answer_429() -> None:
    limits = [
        TokenBucket(rate_per_s=0.001, burst=3, retry_after="seconds"),
        SlidingWindow(requests=100, per_s=60),
    ]
    with SimulatedExchange("BTC-USD:5", limits=limits) as sim:
        assert [fetch(sim)[0] for _ in range(5)] == [200, 200, 200, 429, 429]
        assert fetch(sim)[1] == b'{"message":"Public rate limit exceeded"}'
        assert sim.stats()["throttled"] == 3
        assert fetch(sim, "/_sim/stats")[0] == 200


def test_signed_requests() -> None:
    key = ApiKey.model_validate({"key": "k", "secret": "c2VjcmV0", "passphrase": "p"})
    with SimulatedExchange("BTC-USD:5", keys=[key]) as sim:
        assert fetch(sim)[0] == 401
        target, timestamp = f"{PAGE}?after=3", str(int(time.time()))
        wire = connect(sim)
        wire.request(
            "GET",
            target,
            headers={
                **AGENT,
                "CB-ACCESS-KEY": "k",
                "CB-ACCESS-SIGN": key.sign(timestamp, "GET", target),
                "CB-ACCESS-TIMESTAMP": timestamp,
                "CB-ACCESS-PASSPHRASE": "p",
            },
        )
        assert wire.getresponse().status == 200
        wire.close()


@pytest.mark.parametrize(
    "sent",
    [
        b"NONSENSE\r\n\r\n",
        b"GET / HTTP/1.0\r\n\r\n",
        b"GET / HTTP/1.1\r\nno header\r\n\r\n",
        b"POST / HTTP/1.1\r\nContent-Length: x\r\n\r\n",
        b"POST / HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\n",
        b"X" * 70_000,
    ],
)
def test_what_is_no_request_is_a_400_and_the_end(sim: SimulatedExchange, sent: bytes) -> None:
    assert raw(sim, sent).startswith(b"HTTP/1.1 400 ")


def test_requests_in_pieces_and_in_a_row(sim: SimulatedExchange) -> None:
    request = f"GET {PAGE}?after=2 HTTP/1.1\r\nUser-Agent: tests\r\n".encode()
    with socket.create_connection(("127.0.0.1", sim.port), timeout=10) as wire:
        wire.sendall(request[:9])
        time.sleep(0.02)
        wire.sendall(request[9:] + b"\r\n" + request + b"Connection: close\r\n\r\n")
        received = b""
        while piece := wire.recv(65536):
            received += piece
    assert received.count(b"HTTP/1.1 200 OK\r\n") == 2
    assert [arrival.status for arrival in sim.arrivals()] == [200, 200]


def test_a_client_that_leaves_is_forgotten(sim: SimulatedExchange) -> None:
    sim.add_fault("drip,every_s=60,part=head,calls=1")
    with pytest.raises(TimeoutError):
        fetch(sim, timeout_s=0.1)
    assert fetch(sim)[0] == 200
    assert sim.stats()["in_flight"] == 0


def test_leaving_stops_the_server_in_spite_of_hanging_clients() -> None:
    threads_before = set(threading.enumerate())
    with SimulatedExchange("BTC-USD:5", faults=["hang"]) as sim:
        with pytest.raises(TimeoutError):
            fetch(sim, timeout_s=0.1)
        hanging = connect(sim)
        hanging.request("GET", PAGE, headers=AGENT)
    with pytest.raises(ConnectionError):
        hanging.getresponse()
    hanging.close()
    with pytest.raises(ConnectionRefusedError):
        fetch(sim)
    assert set(threading.enumerate()) <= threads_before
