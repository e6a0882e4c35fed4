"""The only way out is a proxy: the exchange, Looker and S3 through a real one on loopback."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from pydantic import SecretStr

from headrace.doctor import Severity, Target
from headrace.doctor.checks.network import check_network
from headrace.doctor.probes import NoAnswer, ask
from headrace.errors import ConfigurationError
from headrace.exchange.client import ExchangeClient
from headrace.lake.opening import make_store
from headrace.lake.s3 import S3Store
from headrace.looker.client import LookerConnection, open_client
from headrace.quota import BreakerConfig, Gate, QuotaConfig, open_gate, parse_rates
from headrace.settings import Settings
from headrace.sim import SimulatedExchange
from headrace.sim.looker import SimulatedLooker
from headrace.wire.client import RetryPolicy
from headrace.wire.exceptions import ConnectionFailed, ProxyRefusal, RetriesExhausted
from headrace.wire.transport import Timeouts, Transport
from tests.services_fixtures import BUCKET, free_port, settings_for
from tests.support.forward_proxy import forward_proxy, make_certificate, tls_in_front
from tests.support.looker import SECRET

HOST = "api.exchange.test"
LOGIN = "user:pass-word-7"
LIMITS = Timeouts(2.0, 5.0, 8.0)
ONCE = RetryPolicy(failed_attempts=1)


@pytest.fixture(autouse=True)
def no_other_way(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in list(os.environ):
        if name.lower().endswith("_proxy") or name in ("SSL_CERT_FILE", "REQUESTS_CA_BUNDLE"):
            monkeypatch.delenv(name)


@pytest.fixture(scope="module")
def sim() -> Iterator[SimulatedExchange]:
    with SimulatedExchange("BTC-USD:5000", seed=3) as running:
        yield running


@pytest.fixture
def gate(tmp_path: Path) -> Iterator[Gate]:
    config = QuotaConfig(name="sim", rates=parse_rates("none"))
    with open_gate(tmp_path / "quota", config, BreakerConfig(failures=1)) as opened:
        yield opened


@pytest.fixture(scope="module")
def certificate(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return make_certificate(tmp_path_factory.mktemp("tls") / "both.pem", HOST)


@pytest.mark.parametrize("login", ["", LOGIN])
def test_an_http_server_is_asked_through_the_proxy(
    monkeypatch: pytest.MonkeyPatch, sim: SimulatedExchange, gate: Gate, login: str
) -> None:
    with forward_proxy({HOST: sim.port}, login=login) as proxy:
        monkeypatch.setenv("HTTP_PROXY", proxy.url)
        with Transport(f"http://{HOST}", timeouts=LIMITS) as transport:
            transport.check_reachable()
            page = ExchangeClient(transport, gate, policy=ONCE).page("BTC-USD", 2001)

    assert page.last_id == 2000
    assert proxy.seen == [
        f"GET http://{HOST}/products/BTC-USD/trades?limit=1000&after=2001 HTTP/1.1"
    ]


@pytest.mark.parametrize("variable", ["SSL_CERT_FILE", "REQUESTS_CA_BUNDLE"])
@pytest.mark.parametrize("login", ["", LOGIN])
def test_an_https_server_is_reached_by_connect(
    monkeypatch: pytest.MonkeyPatch,
    sim: SimulatedExchange,
    gate: Gate,
    certificate: Path,
    login: str,
    variable: str,
) -> None:
    with (
        tls_in_front(sim.port, certificate) as secure,
        forward_proxy({HOST: secure}, login=login) as proxy,
    ):
        monkeypatch.setenv("HTTPS_PROXY", proxy.url)
        monkeypatch.setenv(variable, str(certificate))
        with Transport(f"https://{HOST}", timeouts=LIMITS) as transport:
            client = ExchangeClient(transport, gate, policy=ONCE)
            pages = [client.page("BTC-USD", cursor) for cursor in (2001, 1001)]

    assert [page.last_id for page in pages] == [2000, 1000]
    # The connection is kept, so that the proxy is asked once.
    assert proxy.seen == [f"CONNECT {HOST}:443 HTTP/1.1"]


def test_a_certificate_that_is_not_trusted_names_the_way_and_what_to_do(
    monkeypatch: pytest.MonkeyPatch, sim: SimulatedExchange, certificate: Path
) -> None:
    with (
        tls_in_front(sim.port, certificate) as secure,
        forward_proxy({HOST: secure}, login=LOGIN) as proxy,
    ):
        monkeypatch.setenv("HTTPS_PROXY", proxy.url)
        with (
            Transport(f"https://{HOST}", timeouts=LIMITS) as transport,
            pytest.raises(ConnectionFailed, match="no secure connection") as failed,
        ):
            transport.check_reachable()

    assert f"127.0.0.1:{proxy.port}" in str(failed.value)
    assert "SSL_CERT_FILE" in failed.value.hint


@pytest.mark.parametrize("scheme", ["http", "https"])
def test_a_proxy_that_wants_a_login_is_named_and_is_no_failure_of_the_server(
    monkeypatch: pytest.MonkeyPatch, sim: SimulatedExchange, gate: Gate, scheme: str
) -> None:
    with forward_proxy({HOST: sim.port}, login=LOGIN) as proxy:
        monkeypatch.setenv(f"{scheme}_proxy", f"http://user:wrong-word@127.0.0.1:{proxy.port}")
        with (
            Transport(f"{scheme}://{HOST}", timeouts=LIMITS) as transport,
            pytest.raises(ProxyRefusal, match=f"127.0.0.1:{proxy.port}") as refused,
        ):
            ExchangeClient(transport, gate).page("BTC-USD", 2001)

    assert refused.value.status == 407
    assert f"{scheme.upper()}_PROXY" in refused.value.hint
    assert "wrong-word" not in f"{refused.value} {refused.value.hint}"
    assert gate.status().breaker.failures == 0
    assert len(proxy.seen) == 1


@pytest.mark.parametrize(
    ("hosts", "kind"), [((HOST,), ProxyRefusal), ((), ConnectionFailed)], ids=["403", "502"]
)
def test_a_proxy_that_does_not_open_the_way_is_named(
    monkeypatch: pytest.MonkeyPatch, hosts: tuple[str, ...], kind: type[Exception]
) -> None:
    with forward_proxy({}, login=LOGIN, refused=hosts) as proxy:
        monkeypatch.setenv("HTTPS_PROXY", proxy.url)
        with (
            Transport(f"https://{HOST}", timeouts=LIMITS) as transport,
            pytest.raises(kind, match=f"127.0.0.1:{proxy.port}") as refused,
        ):
            transport.check_reachable()

    assert type(refused.value) is kind
    assert "pass-word-7" not in str(refused.value)


@pytest.mark.parametrize("scheme", ["http", "https"])
def test_a_proxy_that_is_not_there_is_named(
    monkeypatch: pytest.MonkeyPatch, gate: Gate, scheme: str
) -> None:
    port = free_port()
    monkeypatch.setenv(f"{scheme.upper()}_PROXY", f"http://{LOGIN}@127.0.0.1:{port}")
    with Transport(f"{scheme}://{HOST}", timeouts=LIMITS) as transport:
        once = ExchangeClient(transport, gate, policy=ONCE)
        with pytest.raises(RetriesExhausted, match=f"127.0.0.1:{port}") as failed:
            once.page("BTC-USD", 2001)

    assert "pass-word-7" not in str(failed.value)
    assert "NO_PROXY" in failed.value.hint


def test_a_looker_is_asked_through_the_proxy(monkeypatch: pytest.MonkeyPatch, gate: Gate) -> None:
    with SimulatedLooker() as looker, forward_proxy({"looker.test": looker.port}) as proxy:
        monkeypatch.setenv("HTTP_PROXY", proxy.url)
        connection = LookerConnection("http://looker.test", "headrace", SecretStr(SECRET))
        with open_client(connection, gate) as client:
            client.send("PATCH", "/looks/1", b'{"title": "Through a proxy"}')
            assert b"Through a proxy" in client.item("look", "1")

    assert any(line == "PATCH http://looker.test/api/4.0/looks/1 HTTP/1.1" for line in proxy.seen)


def test_a_store_is_reached_through_the_proxy(
    monkeypatch: pytest.MonkeyPatch, moto_url: str
) -> None:
    port = int(moto_url.rpartition(":")[2])
    with forward_proxy({"127.9.9.9": port}, login=LOGIN) as proxy:
        monkeypatch.setenv("HTTP_PROXY", proxy.url)
        store = S3Store(BUCKET, "proxied", settings_for("http://127.9.9.9"))
        store.put("a", b"content")
        assert store.tail("a", 3) == b"ent"
        assert [entry.key for entry in store.entries("")] == ["a"]
        monkeypatch.setenv("HTTP_PROXY", f"http://127.0.0.1:{free_port()}")
        beside = S3Store(BUCKET, "proxied", settings_for(moto_url))
        assert beside.get("a") == b"content"

    assert [line.split(" ")[0] for line in proxy.seen] == ["PUT", "GET", "GET"]


def test_the_doctor_asks_as_runs_do_and_says_which_proxy_is_used(
    monkeypatch: pytest.MonkeyPatch, sim: SimulatedExchange, tmp_path: Path
) -> None:
    target = Target(
        settings=Settings(home=tmp_path),
        lake=str(tmp_path),
        base_url=f"http://{HOST}",
        rate="10/s",
        api=None,
        database=tmp_path / "none.db",
        open_store=lambda: make_store(str(tmp_path)),
    )
    with forward_proxy({HOST: sim.port}, login=LOGIN) as proxy:
        monkeypatch.setenv("HTTP_PROXY", proxy.url)
        assert ask(f"http://{HOST}/products").status == 200
        *_, found = check_network(target)
    assert found.severity is Severity.OK
    assert f"127.0.0.1:{proxy.port}" in found.what
    assert "pass-word-7" not in found.what

    monkeypatch.setenv("HTTP_PROXY", f"http://{LOGIN}@127.0.0.1:{free_port()}")
    *_, gone = check_network(target)
    assert gone.severity is Severity.PROBLEM
    with pytest.raises(NoAnswer, match="HTTP_PROXY"):
        ask(f"http://{HOST}/products")


def test_a_command_goes_through_the_proxy_and_shows_no_password(
    sim: SimulatedExchange, tmp_path: Path
) -> None:
    command = [str(Path(sys.executable).parent / "headrace"), "products", "list", "--live"]
    kept = {**os.environ, "HEADRACE_HOME": str(tmp_path), "HEADRACE_LOG_LEVEL": "debug"}
    with forward_proxy({HOST: sim.port}, login=LOGIN) as proxy:
        found = subprocess.run(
            [*command, "--base-url", f"http://{HOST}"],
            env={**kept, "HTTP_PROXY": proxy.url},
            capture_output=True,
            text=True,
            check=True,
        )
        wrong = subprocess.run(
            [*command, "--base-url", f"http://{HOST}"],
            env={**kept, "HTTP_PROXY": proxy.url.replace("word", "w0rd")},
            capture_output=True,
            text=True,
        )

    assert "BTC-USD" in found.stdout
    assert wrong.returncode == 1
    assert f"127.0.0.1:{proxy.port}" in wrong.stderr
    for said in (found, wrong):
        assert "pass-w" not in said.stdout + said.stderr


@pytest.mark.parametrize("content", [None, "no certificate"])
def test_certificates_that_cannot_be_used_are_named(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, content: str | None
) -> None:
    bundle = tmp_path / "bundle.pem"
    if content is not None:
        bundle.write_text(content)
    monkeypatch.setenv("REQUESTS_CA_BUNDLE", str(bundle))

    with pytest.raises(ConfigurationError, match="REQUESTS_CA_BUNDLE"):
        Transport(f"https://{HOST}")
