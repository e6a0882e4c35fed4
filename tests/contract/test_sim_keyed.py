"""The simulated keyed exchange as its clients see it: limits, nonces and blocks by key."""

from __future__ import annotations

import json
import threading
import time
from http.client import HTTPConnection
from urllib.parse import urlencode

import pytest

from headrace.sim import SpecError
from headrace.sim.keyed import (
    PATH,
    KeyedSettings,
    SimulatedKeyedExchange,
    SimulatedKeyedExchangeProcess,
    parse_keyed_fault,
)
from headrace.sim.keyed.simulation import KeyState

AT_ONCE = {"inbound": "constant:s=0", "outbound": "constant:s=0"}
KEYS = ("first-key", "second-key")


class Clock:
    """Seconds that pass when a test says so."""

    def __init__(self):
        self.now = 100.0

    def __call__(self):
        return self.now


@pytest.fixture
def clock():
    return Clock()


@pytest.fixture
def sim(clock):
    with SimulatedKeyedExchange(keys=KEYS, limit=3, clock=clock, **AT_ONCE) as running:
        yield running


def ask(sim, key="first-key", nonce=None, *, how="form", method="GET", **more):
    """Status and body of one request."""
    fields = {"api_key": key, "nonce": nonce, **more}
    given = {name: value for name, value in fields.items() if value is not None}
    path, body, headers = PATH, None, {}
    if how == "query":
        path = f"{PATH}?{urlencode(given)}"
    elif how == "json":
        body, headers = json.dumps(given), {"Content-Type": "application/json"}
    else:
        body = urlencode(given)
    wire = HTTPConnection("127.0.0.1", sim.port, timeout=30)
    try:
        wire.request(method, path, body, headers)
        answer = wire.getresponse()
        return answer.status, json.loads(answer.read())
    finally:
        wire.close()


@pytest.mark.parametrize("method", ["GET", "POST"])
@pytest.mark.parametrize("how", ["form", "json", "query"])
def test_a_request_is_accepted_however_its_fields_travel(sim, how, method):
    status, body = ask(sim, nonce=1, req_id="r7", how=how, method=method)
    assert (status, body["status"], body["req_id"]) == (200, "OK", "r7")


def test_refusals_come_in_order_key_then_limit_then_nonce(sim):
    assert ask(sim, key="unknown", nonce=1)[0] == 401
    assert ask(sim, key=None, nonce=1)[0] == 401
    assert ask(sim, nonce=5)[0] == 200
    assert ask(sim, nonce=5)[0] == 400  # it counts for the limit, as the next one does
    status, body = ask(sim, nonce="five")
    assert (status, body["status"], body["error_code"]) == (400, "ERROR", "E400")
    status, body = ask(sim, nonce=5)  # both the limit and the nonce are wrong: the limit is first
    assert (status, body["error_code"]) == (429, "E429")
    first, second = sim.key_stats()
    assert (first.accepted, first.throttled, first.bad_nonces) == (1, 1, 2)
    assert (second.accepted, second.throttled) == (0, 0)
    assert sim.stats()["by_status"] == {"200": 1, "400": 2, "401": 2, "429": 1}


def test_the_window_slides_by_key(sim, clock):
    for nonce in range(3):
        clock.now = 100.0 + nonce * 0.1
        assert ask(sim, nonce=nonce)[0] == 200
    clock.now = 100.9999
    assert ask(sim, nonce=9)[0] == 429
    assert ask(sim, key="second-key", nonce=1)[0] == 200
    clock.now = 101.0
    assert ask(sim, nonce=9)[0] == 200
    assert ask(sim, nonce=10)[0] == 429  # the window now holds 100.1, 100.2 and 101.0


def test_ten_refusals_block_a_key_for_good(sim, clock):
    for nonce in range(3):
        ask(sim, nonce=nonce)
    assert [ask(sim, nonce=9)[0] for _ in range(10)] == [429] * 10
    clock.now += 3600
    status, body = ask(sim, nonce=10)
    assert status == 401
    assert "blocked" in body["error_msg"]
    assert [key.blocked for key in sim.key_stats()] == [True, False]
    sim.block(1, blocked=False)
    assert ask(sim, nonce=10)[0] == 200


def test_answers_are_dated_by_a_clock_that_may_step(clock):
    settings = {"limit": 50, "clock_step_s": 3600, **AT_ONCE}
    with SimulatedKeyedExchange(keys=KEYS, clock=clock, **settings) as sim:

        def ahead_s(nonce):
            return ask(sim, nonce=nonce)[1]["timestamp"] / 1000 - time.time()

        assert ahead_s(1) == pytest.approx(0, abs=20)
        clock.now += 15
        assert ahead_s(2) == pytest.approx(3600, abs=20)
        clock.now += 10
        assert ahead_s(3) == pytest.approx(0, abs=20)


def test_requests_overtake_each_other_on_their_way(clock):
    """What left first may arrive last: then its nonce is below the last one accepted."""
    settings = {"inbound": "uniform:low=0,high=0.4", "outbound": "constant:s=0", "seed": 3}
    with SimulatedKeyedExchange(keys=KEYS, limit=50, clock=clock, **settings) as sim:
        answers = {}

        def send(nonce):
            answers[nonce] = ask(sim, nonce=nonce)[0]

        threads = [threading.Thread(target=send, args=(nonce,)) for nonce in range(20)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    assert 400 in answers.values()
    assert answers[19] == 200


def test_faults_meet_the_requests_of_one_key(sim):
    sim.add_fault("respond,status=503,key=2,calls=1")
    assert ask(sim, nonce=1)[0] == 200
    assert ask(sim, key="second-key", nonce=1)[0] == 503
    assert ask(sim, key="second-key", nonce=1)[0] == 200
    assert parse_keyed_fault("slow,s=0.5,key=1").action.s == 0.5


def test_the_same_in_a_child_process():
    with SimulatedKeyedExchangeProcess(keys=KEYS, limit=1, per_s=3600, **AT_ONCE) as sim:
        assert ask(sim, nonce=1)[0] == 200
        assert ask(sim, nonce=2)[0] == 429
        sim.block(2)
        assert ask(sim, key="second-key", nonce=1)[0] == 401
        assert [(key.accepted, key.blocked) for key in sim.key_stats()] == [(1, False), (0, True)]


def test_no_key_is_in_statistics_logs_or_reprs(sim):
    ask(sim, nonce=1)
    ask(sim, key="unknown-key", nonce=1)
    shown = f"{sim.stats()} {sim.arrivals()} {sim.settings!r} {sim.key_stats()}"
    assert "-key" not in shown


@pytest.mark.parametrize(
    ("fields", "named"),
    [
        ({"keys": ()}, "keys"),
        ({"keys": ("same", "same")}, "the same"),
        ({"limit": 0}, "limit"),
        ({"inbound": "normal"}, "normal"),
        ({"faults": ["explode"]}, "explode"),
    ],
)
def test_settings_that_cannot_be_used_are_named(fields, named):
    with pytest.raises(SpecError, match=named) as caught:
        KeyedSettings.of(**fields)
    assert "same" not in caught.value.text


def test_a_window_of_a_key_never_holds_more_than_its_limit():
    key = KeyState(1, KeyedSettings.of(limit=5, block_after=10_000))
    moments = [0.013 * call for call in range(1000)]
    accepted = [at for nonce, at in enumerate(moments) if key.refuse(str(nonce), at) is None]
    assert all(later - earlier >= 1 for earlier, later in zip(accepted, accepted[5:], strict=False))
    assert len(accepted) > 50
