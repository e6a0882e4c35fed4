"""An exchange that counts requests by API key, asked with several of them."""

from __future__ import annotations

import base64
import logging
from collections.abc import Iterator
from pathlib import Path
from threading import Thread
from typing import Any

import pytest
from pydantic import SecretStr

from headrace.exchange.client import ExchangeClient
from headrace.exchange.signing import Credentials
from headrace.quota import KeysRefused, PoolKey, QuotaConfig, open_key_pool, parse_rates
from headrace.sim import ApiKey, SimulatedExchange, SlidingWindow
from headrace.wire.client import RetryPolicy
from headrace.wire.transport import Transport

QUICK = RetryPolicy(first_pause_s=0.01, longest_pause_s=0.05)
KEYS = [
    Credentials(
        f"api-key-{n}", base64.b64encode(f"secret {n}".encode()).decode(), f"passphrase {n}"
    )
    for n in range(1, 4)
]
#: Of each key, for longer than a test takes: three keys give thirty pages, if all are used alike.
LIMIT = SlidingWindow(requests=10, per_s=3600)


@pytest.fixture
def sim() -> Iterator[SimulatedExchange]:
    known = [ApiKey(key=k.key, secret=k.secret, passphrase=k.passphrase) for k in KEYS]
    with SimulatedExchange("BTC-USD:90000", seed=3, keys=known, key_limits=[LIMIT]) as exchange:
        yield exchange


@pytest.fixture
def open_client(sim: SimulatedExchange, tmp_path: Path) -> Iterator[Any]:
    pools: list[Any] = []

    def opened(credentials: list[Credentials]) -> ExchangeClient:
        keys = [PoolKey(str(n), SecretStr(own.key)) for n, own in enumerate(credentials, 1)]
        config = QuotaConfig(name="sim", rates=parse_rates("10/h"), burst=10)
        pools.append(open_key_pool(tmp_path / "quota", config, keys))
        transport = Transport(sim.url)
        pools.append(transport)
        return ExchangeClient(transport, pools[-2], policy=QUICK, credentials=credentials)

    yield opened
    for each in reversed(pools):
        each.close()


def get_pages(client: ExchangeClient, count: int) -> None:
    got: list[int] = []

    def get(first: int) -> None:
        got.extend(
            len(client.page("BTC-USD", 1001 + 1000 * page)) for page in range(first, count, 6)
        )

    threads = [Thread(target=get, args=(first,)) for first in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert got == [1000] * count


def test_requests_are_spread_over_keys_and_signed_with_the_key_of_their_permit(
    sim: SimulatedExchange, open_client: Any
) -> None:
    get_pages(open_client(KEYS), 30)
    assert sim.stats()["by_status"] == {"200": 30}


def test_a_refused_key_is_set_aside_and_its_page_asked_for_with_another(
    sim: SimulatedExchange, open_client: Any, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.DEBUG)
    wrong = Credentials(KEYS[1].key, base64.b64encode(b"another").decode(), KEYS[1].passphrase)
    get_pages(open_client([KEYS[0], wrong, KEYS[2]]), 20)
    statuses = sim.stats()["by_status"]
    assert statuses["200"] == 20
    assert 1 <= statuses["401"] <= 6  # those that had left before the first was refused
    assert "key 2 was refused (status 401)" in caplog.text
    for own in KEYS:
        assert own.key not in caplog.text
        assert own.secret not in caplog.text


def test_when_all_keys_are_refused_the_client_ends(open_client: Any) -> None:
    wrong = [Credentials(f"unknown {n}", "YQ==", "p") for n in range(2)]
    client = open_client(wrong)
    with pytest.raises(KeysRefused, match="refuses every API key"):
        client.page("BTC-USD", 1001)
    assert isinstance(client.ending.cause, KeysRefused)
