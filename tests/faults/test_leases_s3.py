"""S3 ignores conditions, tells no time, fails, refuses, and holds what we did not write."""

from __future__ import annotations

import os
import time
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from uuid import uuid4

import pytest

from headrace.errors import ConfigurationError
from headrace.leases import (
    DamagedLeases,
    LeaseHeld,
    LeaseLost,
    LeaseStatus,
    LeaseStoreMisconfigured,
    LeaseStoreUnavailable,
    NewerLeases,
    S3Leases,
)
from headrace.leases.clock import SERVERS_APART_S
from headrace.leases.this_machine import THIS_MACHINE
from tests.s3_proxy import Answer, S3Proxy, s3_proxy
from tests.services_fixtures import (  # noqa: F401
    BUCKET,
    free_port,
    moto_url,
    s3_client,
    seaweed_url,
    settings_for,
)
from tests.support.elsewhere import Elsewhere

pytestmark = pytest.mark.services

NAME = "coinbase/BTC-USD"


@pytest.fixture
def proxy(moto_url: str) -> Iterator[S3Proxy]:  # noqa: F811
    with s3_proxy(moto_url) as proxy:
        yield proxy


@pytest.fixture
def prefix() -> str:
    return f"faults/{uuid4().hex}"


def key_in(prefix: str) -> str:
    return f"{prefix}/_leases/coinbase=2FBTC-USD.json"


@pytest.fixture
def store(proxy: S3Proxy, prefix: str) -> S3Leases:
    return S3Leases(BUCKET, prefix, settings_for(proxy.url))


@pytest.mark.parametrize("condition", ["if-none-match", "if-match"])
def test_a_store_that_ignores_a_condition_is_refused(
    store: S3Leases, proxy: S3Proxy, condition: str
) -> None:
    proxy.without = {condition}
    with pytest.raises(LeaseStoreMisconfigured, match=r"two runs.*Point HEADRACE_LEASES") as caught:
        store.acquire(NAME, run_id="one", ttl_s=60)
    assert isinstance(caught.value, ConfigurationError)
    assert store.list() == ()


def test_a_store_that_does_not_know_conditions_is_refused(store: S3Leases, proxy: S3Proxy) -> None:
    proxy.script("PUT", Answer(501, "NotImplemented"), times=None)
    with pytest.raises(LeaseStoreMisconfigured, match="a store with conditional PUT"):
        store.acquire(NAME, run_id="one", ttl_s=60)


def test_a_store_that_compares_and_writes_in_two_steps_is_refused(
    store: S3Leases, proxy: S3Proxy
) -> None:
    store.release(store.acquire(NAME, run_id="one", ttl_s=60))  # has found conditions in force
    proxy.without = {"if-match"}
    with pytest.raises(LeaseStoreMisconfigured, match="wrote 4 times what may be written once"):
        store.prove()


def test_one_step_passes(seaweed_url: str, prefix: str) -> None:  # noqa: F811
    store = S3Leases(BUCKET, prefix, settings_for(seaweed_url))
    store.prove()
    assert store.list() == ()


def test_the_proof_is_asked_for_once(store: S3Leases, proxy: S3Proxy, prefix: str) -> None:
    for name in ("a", "b"):
        store.release(store.acquire(name, run_id="one", ttl_s=60))
    assert len(proxy.requests("PUT", "conditional-put")) == 3
    S3Leases(BUCKET, prefix, settings_for(proxy.url)).acquire("c", run_id="one", ttl_s=60)
    assert len(proxy.requests("PUT", "conditional-put")) == 5


def test_a_store_that_does_not_say_the_time_is_refused(store: S3Leases, proxy: S3Proxy) -> None:
    proxy.without = {"date"}
    with pytest.raises(LeaseStoreMisconfigured, match="do not say what time it is"):
        store.acquire(NAME, run_id="one", ttl_s=60)


@pytest.mark.parametrize("call", ["acquire", "renew", "release"])
@pytest.mark.parametrize("status", [500, 0])
def test_a_write_that_was_stored_but_answered_as_failed(
    store: S3Leases, proxy: S3Proxy, call: str, status: int
) -> None:
    grant = None if call == "acquire" else store.acquire(NAME, run_id="one", ttl_s=60)
    proxy.script("PUT", Answer(status, forward=True), key="BTC-USD")
    if grant is None:
        store.check(store.acquire(NAME, run_id="one", ttl_s=60))
    elif call == "renew":
        store.check(store.renew(grant))
    else:
        store.release(grant)
        assert store.list()[0].status is LeaseStatus.FREE
    assert proxy.rules[0].times == 0


def test_an_object_that_was_deleted_cannot_be_replaced(
    store: S3Leases, proxy: S3Proxy, prefix: str
) -> None:
    """Between the look and the write: the holder learns it, and the token rises on."""
    grant = store.acquire(NAME, run_id="one", ttl_s=60)
    seen = store._read(NAME)
    assert seen is not None
    s3_client(proxy.upstream).delete_object(Bucket=BUCKET, Key=key_in(prefix))
    assert store._swap(seen, seen) is False
    with pytest.raises(LeaseLost, match="no longer knows of it"):
        store.check(grant)


def test_objects_that_are_not_ours(store: S3Leases, proxy: S3Proxy, prefix: str) -> None:
    grant = store.acquire(NAME, run_id="one", ttl_s=60)
    client = s3_client(proxy.upstream)
    key = key_in(prefix)
    written = client.get_object(Bucket=BUCKET, Key=key)["Body"].read()
    for content, error in (
        (written.replace(b'"schema_version": 1', b'"schema_version": 2'), NewerLeases),
        (written.replace(NAME.encode(), b"coinbase/ETH-USD"), DamagedLeases),
        (written[:-10], DamagedLeases),
        (b"[]", DamagedLeases),
        (b"", DamagedLeases),
    ):
        client.put_object(Bucket=BUCKET, Key=key, Body=content)
        for call in (lambda: store.renew(grant), lambda: store.check(grant), store.list):
            with pytest.raises(error, match="BTC-USD"):
                call()
    client.put_object(Bucket=BUCKET, Key=key, Body=written)
    store.check(grant)


def test_what_passes_by_itself_is_waited_out(store: S3Leases, proxy: S3Proxy) -> None:
    for method in ("GET", "PUT"):
        proxy.script(method, Answer(503, "SlowDown"), Answer(0), key="BTC-USD")
    store.check(store.acquire(NAME, run_id="one", ttl_s=60))
    assert all(rule.times == 0 for rule in proxy.rules)


def test_no_answer(prefix: str) -> None:
    store = S3Leases(BUCKET, prefix, settings_for(f"http://127.0.0.1:{free_port()}"))
    store._settings = store._settings.model_copy(update={"give_up_after_s": 0.1})
    with pytest.raises(LeaseStoreUnavailable, match=r"GetObject: .* HEADRACE_LEASES"):
        store.acquire(NAME, run_id="one", ttl_s=60)


def test_wrong_credentials(seaweed_url: str, prefix: str) -> None:  # noqa: F811
    store = S3Leases(BUCKET, prefix, settings_for(seaweed_url, secret_access_key="wrong"))
    with pytest.raises(LeaseStoreMisconfigured, match=r"AWS_SECRET_ACCESS_KEY.*HEADRACE_LEASES"):
        store.acquire(NAME, run_id="one", ttl_s=60)


def test_no_such_bucket(seaweed_url: str) -> None:  # noqa: F811
    store = S3Leases("missing", "", settings_for(seaweed_url))
    with pytest.raises(LeaseStoreMisconfigured, match="no such bucket"):
        store.acquire(NAME, run_id="one", ttl_s=60)


@pytest.mark.parametrize("ahead_s", [-3600.0, 3600.0])
def test_the_clocks_of_machines_do_not_count(
    seaweed_url: str,  # noqa: F811
    prefix: str,
    ahead_s: float,
) -> None:
    """An hour off either way: no early takeover, and none that is more than seconds late."""
    ours = S3Leases(BUCKET, prefix, settings_for(seaweed_url))
    wrong = S3Leases(BUCKET, prefix, settings_for(seaweed_url), machine=Elsewhere("wrong", ahead_s))
    began = THIS_MACHINE.boot_s()
    grant = wrong.acquire(NAME, run_id="wrong", ttl_s=1.5)
    assert abs(grant.holder.since - datetime.now(UTC)) < timedelta(seconds=60)
    while True:
        try:
            taken = ours.acquire(NAME, run_id="ours", ttl_s=60)
            break
        except LeaseHeld:
            assert THIS_MACHINE.boot_s() < began + 60, "the lease never ended"
            time.sleep(0.1)
    assert THIS_MACHINE.boot_s() - began >= 1.5 + SERVERS_APART_S - 0.1
    assert taken.token > grant.token
    with pytest.raises(LeaseHeld):
        wrong.acquire(NAME, run_id="wrong", ttl_s=60)


def test_a_forked_child_asks_through_connections_of_its_own(store: S3Leases) -> None:
    grant = store.acquire(NAME, run_id="one", ttl_s=60)
    pid = os.fork()
    if pid == 0:
        try:
            for _ in range(5):
                store.check(grant)
            os._exit(0)
        finally:
            os._exit(1)
    for _ in range(5):
        store.check(grant)
    assert os.waitpid(pid, 0)[1] == 0
