"""The Looker client: one login, one renewal, a permit per attempt, errors by status and shape."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import threading
import time

import pytest
from pydantic import SecretStr
from support.looker import SECRET, client_of

from headrace.errors import ConfigurationError
from headrace.looker.client import (
    AccessRefused,
    AppError,
    LoginRefused,
    LookerConnection,
    NoCredentials,
    NotFound,
    connection_from_environment,
)
from headrace.looker.content_types import content_of
from headrace.sim.looker import SimulatedLooker
from headrace.stopping import StopEvent, Stopped
from headrace.wire.exceptions import (
    BadAnswer,
    ConnectionFailed,
    RequestRefused,
    RequestTimeout,
    RetriesExhausted,
    ServerError,
    Throttled,
)

DASHBOARDS = content_of("dashboard").listings[0]


@pytest.fixture(autouse=True)
def no_page_is_fetched(monkeypatch):
    def fetched(*_args):
        raise AssertionError("the SDK read an error's documentation URL")

    monkeypatch.setattr("looker_sdk.error.ErrorDocHelper.parse_and_lookup", fetched)


@pytest.fixture
def sim():
    with SimulatedLooker(counts={"dashboard": 120}) as running:
        yield running


@pytest.fixture
def client(sim):
    with client_of(sim.url) as opened:
        yield opened


def test_bodies_come_as_the_server_sent_them(client, sim):
    assert client.item("look", "3") == sim.library.body("look", "3")
    page = client.page(DASHBOARDS, start=0, size=2)
    assert page == b"[" + b",".join(sim.library.body("dashboard", n) for n in "12") + b"]"


def test_ten_threads_log_in_once(client, sim):
    _at_once(10, lambda: client.item("look", "1"))
    assert sim.stats()["logins"] == 1


def test_a_revoked_token_is_renewed_once_for_all_threads(client, sim):
    client.login()
    sim.revoke_tokens()
    _at_once(10, lambda: client.item("look", "2"))
    assert sim.stats()["logins"] == 2
    assert client.logins == 2


def test_a_token_that_ends_in_mid_run_costs_one_login_and_no_item():
    now = [0.0]
    with (
        SimulatedLooker(token_s=60, clock=lambda: now[0]) as sim,
        client_of(sim.url) as client,
    ):
        client.item("look", "1")
        now[0] = 300.0
        assert client.item("look", "2")
        assert sim.stats()["logins"] == 2


def test_a_refusal_of_a_new_token_is_an_error_after_one_renewal(client, sim):
    body = json.dumps({"message": "Requires authentication."})
    sim.simulation.add_fault(_respond(401, body, id="5"))
    with pytest.raises(AccessRefused) as refused:
        client.item("look", "5")
    assert refused.value.status == 401
    assert sim.stats()["fault_hits"]["1"] == 2


def test_the_night_on_which_clocks_go_back_makes_no_token_last_longer(tmp_path):
    """A naive local clock holds a 60-minute token good for 120 minutes then."""
    script = f"""
import time
import looker_sdk.rtl.auth_token as auth_token
from headrace.looker.client.client import LookerSession, Settings
from headrace.looker.client.connection import LookerConnection
from looker_sdk.rtl import transport
from pydantic import SecretStr

class Logins(transport.Transport):
    count = 0
    @classmethod
    def configure(cls, settings): ...
    def request(self, *args, **kwargs):
        self.count += 1
        return transport.Response(
            True, b'{{"access_token": "t", "expires_in": 3600}}', transport.ResponseMode.STRING)

now = [0.0]
wire = Logins()
connection = LookerConnection("http://127.0.0.1:1", "id", SecretStr({SECRET!r}))
session = LookerSession(Settings(connection), wire, clock=lambda: now[0])
session.authenticate({{}})
now[0] = 3595.0
session.authenticate({{}})
print(wire.count)
"""
    done = subprocess.run(
        [sys.executable, "-c", script],
        env={**os.environ, "TZ": "America/New_York"},
        capture_output=True,
        text=True,
        check=True,
    )
    assert done.stdout.split() == ["2"]


def test_credentials_that_are_refused_are_not_tried_again_and_never_shown(sim):
    with client_of(sim.url, secret="not-the-secret") as client:
        for _ in range(3):
            with pytest.raises(LoginRefused) as refused:
                client.login()
            assert "not-the-secret" not in str(refused.value)
    assert sim.stats()["logins_refused"] == 1
    shown = repr(LookerConnection("http://127.0.0.1:1", "id", SecretStr("not-the-secret")))
    assert "not-the-secret" not in shown


def test_no_answer_from_the_address_is_one_clear_error():
    said = r"no answer from http://127\.0\.0\.1:9 "
    with client_of("http://127.0.0.1:9") as client, pytest.raises(ConnectionFailed, match=said):
        client.check_reachable()


def test_429_is_waited_out_and_reported_to_the_quota(client, sim):
    client.login()
    throttled = json.dumps({"message": "Too Many Requests"})
    sim.simulation.add_fault(_respond(429, throttled, calls=2))
    assert client.item("look", "1")
    assert client.stats.throttled == 2
    sim.simulation.add_fault(_respond(429, throttled))
    with pytest.raises(RetriesExhausted) as given_up:
        client.item("look", "2")
    assert isinstance(given_up.value.__cause__, Throttled)


def test_an_html_page_is_the_server_s_failure_and_is_never_quoted(client, sim):
    client.login()
    sim.add_fault("html,status=502,calls=1")
    assert client.item("look", "1")
    sim.add_fault("html,status=502,type=look")
    with pytest.raises(RetriesExhausted, match="502") as given_up:
        client.item("look", "1")
    assert isinstance(given_up.value.__cause__, ServerError)
    assert "<html" not in str(given_up.value)


def test_an_error_of_looker_s_own_is_tried_three_times(client, sim):
    sim.add_fault("error,status=500,type=look,id=7")
    with pytest.raises(RetriesExhausted, match="An error has occurred") as given_up:
        client.item("look", "7")
    assert isinstance(given_up.value.__cause__, AppError)
    assert sim.stats()["fault_hits"]["1"] == 3


@pytest.mark.parametrize(
    ("status", "body", "kind"),
    [
        (403, '{"message": "Forbidden"}', AccessRefused),
        (404, '{"message": "The resource you\'re looking for could not be found"}', NotFound),
        (400, '{"message": "Bad"}', RequestRefused),
    ],
)
def test_a_refusal_is_asked_once_and_its_error_depends_on_the_status(
    client, sim, status, body, kind
):
    client.login()
    sim.simulation.add_fault(_respond(status, body))
    with pytest.raises(kind) as refused:
        client.item("look", "1")
    assert refused.value.status == status
    assert sim.stats()["fault_hits"]["1"] == 1


def test_a_422_names_the_fields(client):
    with pytest.raises(RequestRefused, match="folder_id is required"):
        client.send("POST", "/looks", b'{"title": "L"}')


def test_a_404_that_is_not_looker_s_proves_nothing(client, sim):
    client.login()
    sim.add_fault("html,status=404,type=look")
    with pytest.raises(RetriesExhausted) as given_up:
        client.item("look", "1")
    assert isinstance(given_up.value.__cause__, BadAnswer)


def test_what_makes_something_is_not_made_twice(client, sim):
    client.login()
    sim.add_fault("reset,ask=write")
    before = len(sim.library.ids("group"))
    with pytest.raises(RetriesExhausted, match="1 attempts"):
        client.send("POST", "/groups", b'{"name": "Once"}')
    # The reset came after it was carried out: one attempt, one group.
    assert len(sim.library.ids("group")) == before + 1


@pytest.mark.parametrize("fault", ["hang", "drip,every_s=0.05", "drip,every_s=0.05,part=head"])
def test_a_request_ends_within_its_time(sim, fault):
    with client_of(sim.url, total_s=0.5) as client:
        client.login()
        sim.add_fault(fault)
        began = time.monotonic()
        with pytest.raises(RetriesExhausted) as given_up:
            client.item("dashboard", "1")
        assert isinstance(given_up.value.__cause__, RequestTimeout)
        assert time.monotonic() - began < 30


@pytest.mark.parametrize("fault", ["cut,how=length,at_byte=50", "cut,how=chunked", "reset"])
def test_an_answer_that_breaks_off_is_asked_for_again(client, sim, fault):
    client.login()
    sim.add_fault(f"{fault},calls=1")
    assert client.item("dashboard", "1") == sim.library.body("dashboard", "1")


def test_a_stop_ends_a_request_in_flight(sim):
    stop = StopEvent()
    with client_of(sim.url, stop=stop, total_s=600) as client:
        client.login()
        sim.add_fault("hang")
        threading.Timer(0.2, stop.set).start()
        began = time.monotonic()
        with pytest.raises(Stopped):
            client.item("look", "1")
        assert time.monotonic() - began < 60


def test_every_attempt_takes_a_permit_of_both_rates(sim):
    with client_of(sim.url, rates="10/s,40/m") as client:
        client.login()
        _at_once(10, lambda: client.item("look", "1"))
        windows = sim.stats((1.0, 60.0))["most_in_window"]
    assert windows["1.0"] <= 10
    assert windows["60.0"] <= 40


def test_no_more_requests_are_in_flight_than_workers():
    with SimulatedLooker(latency="constant:s=0.05") as sim, client_of(sim.url, workers=3) as client:
        client.login()
        _at_once(12, lambda: client.item("look", "1"))
        assert sim.stats()["most_in_flight"] == 3


def test_it_logs_out_at_the_end(sim):
    with client_of(sim.url) as client:
        client.login()
    assert sim.stats()["by_status"] == {"200": 1, "204": 1}


def test_the_environment_of_the_sdk_is_understood(monkeypatch):
    monkeypatch.setenv("LOOKERSDK_BASE_URL", '"https://company.looker.com/"')
    monkeypatch.setenv("LOOKERSDK_CLIENT_ID", "id")
    monkeypatch.setenv("LOOKERSDK_CLIENT_SECRET", "secret")
    monkeypatch.setenv("LOOKERSDK_VERIFY_SSL", "false")
    monkeypatch.setenv("LOOKERSDK_TIMEOUT", "33")
    connection = connection_from_environment()
    assert connection.base_url == "https://company.looker.com"
    assert not connection.verify_ssl
    assert connection.timeouts.total_s == 33.0
    monkeypatch.setenv("LOOKERSDK_TIMEOUT", "soon")
    with pytest.raises(ConfigurationError, match="LOOKERSDK_TIMEOUT"):
        connection_from_environment()
    monkeypatch.delenv("LOOKERSDK_CLIENT_SECRET")
    with pytest.raises(NoCredentials, match="LOOKERSDK_CLIENT_SECRET"):
        connection_from_environment()


def _respond(status, body, **conditions):
    from headrace.sim.looker import LookerFault

    action = {"kind": "respond", "status": status, "body": body}
    return LookerFault.model_validate({"action": action, **conditions})


def _at_once(threads, work):
    problems = []

    def working():
        try:
            work()
        except Exception as error:  # noqa: BLE001 - shown by the assertion below
            problems.append(error)

    running = [threading.Thread(target=working) for _ in range(threads)]
    for thread in running:
        thread.start()
    for thread in running:
        thread.join()
    assert not problems


def test_a_page_that_a_gateway_gives_up_on_is_no_outage_however_alone_it_is(client, sim):
    client.login()
    sim.add_fault("html,status=502,type=dashboard")
    for number in "12345":
        with pytest.raises(RetriesExhausted, match="4 attempts"):
            client.item("dashboard", number)
    # Twenty failures, and the breaker is closed: in between the server said that it is up.
    assert client.item("look", "1")
    assert sim.stats()["fault_hits"]["1"] == 20


@pytest.mark.parametrize("fault", ["html,status=503", "refuse", "reset"])
def test_an_outage_is_waited_out_and_costs_no_request_its_attempts(sim, fault):
    with client_of(sim.url, workers=1) as client:
        client.login()
        number = sim.add_fault(fault)
        threading.Timer(1.5, lambda: sim.remove_fault(number)).start()
        assert client.item("look", "1")
