"""DynamoDB throttles, fails, refuses, stores without saying so, and holds what we did not write.

A proxy stands between the store and moto's server and answers instead of it where a test asks.
"""

from __future__ import annotations

import json
import logging
import os
import re
import threading
import urllib.error
import urllib.request
from collections import deque
from collections.abc import Iterator
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any
from uuid import uuid4

import boto3
import pytest

from headrace.errors import ConfigurationError
from headrace.leases import (
    DamagedLeases,
    DynamoLeases,
    LeaseHeld,
    LeaseLost,
    LeaseStatus,
    LeaseStoreMisconfigured,
    LeaseStoreUnavailable,
    NewerLeases,
    open_leases,
)
from tests.services_fixtures import moto_url  # noqa: F401
from tests.support.elsewhere import Elsewhere

pytestmark = pytest.mark.services

NAME = "coinbase/BTC-USD"
REGION = "eu-west-1"

SLOW_DOWN = (400, "ProvisionedThroughputExceededException")
UNAVAILABLE = (503, "ServiceUnavailable")
INTERNAL = (500, "InternalServerError")
DENIED = (400, "AccessDeniedException")
BROKEN = (0, "the connection is closed without an answer")


@dataclass
class Proxy:
    """Answers from `script`, by operation, before it lets requests through.

    Attributes:
        script: what to answer in the place of the next requests of an operation.
        afterwards: whether the server gets the request all the same.
        seen: operations that arrived, in order.
    """

    upstream: str
    url: str = ""
    script: dict[str, deque[tuple[int, str]]] = field(default_factory=dict)
    afterwards: bool = False
    seen: list[str] = field(default_factory=list)

    def fail(self, operation: str, *answers: tuple[int, str], stored: bool = False) -> None:
        self.script[operation] = deque(answers)
        self.afterwards = stored
        self.seen.clear()

    def answer(self, handler: BaseHTTPRequestHandler) -> None:
        body = handler.rfile.read(int(handler.headers["Content-Length"]))
        operation = handler.headers["X-Amz-Target"].rpartition(".")[2]
        self.seen.append(operation)
        faults = self.script.get(operation)
        if not faults:
            status, answer = self._forward(handler, body)
        else:
            status, code = faults.popleft()
            if self.afterwards:
                self._forward(handler, body)
            if status == 0:
                handler.close_connection = True
                return
            answer = json.dumps({"__type": f"com.amazon#{code}", "message": "scripted"}).encode()
        handler.send_response(status)
        handler.send_header("Content-Type", "application/x-amz-json-1.0")
        handler.send_header("Content-Length", str(len(answer)))
        handler.end_headers()
        handler.wfile.write(answer)

    def _forward(self, handler: BaseHTTPRequestHandler, body: bytes) -> tuple[int, bytes]:
        headers = {name: value for name, value in handler.headers.items() if name.lower() != "host"}
        request = urllib.request.Request(self.upstream, data=body, headers=headers)
        try:
            with urllib.request.urlopen(request, timeout=10) as response:
                return response.status, response.read()
        except urllib.error.HTTPError as error:
            return error.code, error.read()


@pytest.fixture
def proxy(moto_url: str, monkeypatch: pytest.MonkeyPatch) -> Iterator[Proxy]:  # noqa: F811
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", "key")
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "secret")
    proxy = Proxy(moto_url)

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_POST(self) -> None:
            proxy.answer(self)

        def log_message(self, format: str, *args: Any) -> None:  # noqa: A002
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    server.daemon_threads = True
    proxy.url = f"http://127.0.0.1:{server.server_port}"
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.02})
    thread.start()
    yield proxy
    server.shutdown()
    thread.join()
    server.server_close()


@pytest.fixture
def pauses() -> list[float]:
    return []


@pytest.fixture
def store(proxy: Proxy, pauses: list[float]) -> DynamoLeases:
    return DynamoLeases(
        f"leases-{uuid4().hex}",
        endpoint_url=proxy.url,
        region=REGION,
        create=True,
        sleep=pauses.append,
    )


def client_of(proxy: Proxy) -> Any:
    return boto3.session.Session().client(
        "dynamodb", endpoint_url=proxy.upstream, region_name=REGION
    )


@pytest.mark.parametrize("fault", [SLOW_DOWN, UNAVAILABLE, INTERNAL, BROKEN])
@pytest.mark.parametrize("operation", ["GetItem", "PutItem"])
def test_what_passes_by_itself_is_waited_out(
    store: DynamoLeases,
    proxy: Proxy,
    pauses: list[float],
    operation: str,
    fault: tuple[int, str],
) -> None:
    proxy.fail(operation, fault, fault, fault)
    grant = store.acquire(NAME, run_id="one", ttl_s=60)
    assert proxy.seen.count(operation) == 4
    assert len(pauses) == 3
    assert all(0 <= pause <= 1 for pause in pauses)
    store.check(grant)


def test_what_does_not_pass_is_given_up(
    store: DynamoLeases, proxy: Proxy, pauses: list[float]
) -> None:
    proxy.fail("PutItem", *[UNAVAILABLE] * 50)
    with pytest.raises(LeaseStoreUnavailable) as caught:
        store.acquire(NAME, run_id="one", ttl_s=60)
    assert proxy.seen.count("PutItem") == 5
    assert len(pauses) == 4
    assert store.table in str(caught.value)
    assert "PutItem failed 5 times" in str(caught.value)


@pytest.mark.parametrize("call", ["acquire", "renew", "release"])
@pytest.mark.parametrize("fault", [INTERNAL, BROKEN])
def test_a_write_that_was_stored_but_answered_as_failed(
    store: DynamoLeases, proxy: Proxy, call: str, fault: tuple[int, str]
) -> None:
    grant = None if call == "acquire" else store.acquire(NAME, run_id="one", ttl_s=60)
    proxy.fail("PutItem", fault, stored=True)
    if grant is None:
        store.check(store.acquire(NAME, run_id="one", ttl_s=60))
    elif call == "renew":
        store.check(store.renew(grant))
    else:
        store.release(grant)
        assert store.list()[0].status is LeaseStatus.FREE
    assert proxy.seen.count("PutItem") >= 2


@pytest.mark.parametrize(
    ("call", "operation"), [("acquire", "PutItem"), ("check", "GetItem"), ("list", "Scan")]
)
def test_a_denied_action_is_named_at_once(
    store: DynamoLeases, proxy: Proxy, pauses: list[float], call: str, operation: str
) -> None:
    grant = store.acquire(NAME, run_id="one", ttl_s=60)
    calls = {
        "acquire": lambda: store.acquire("other", run_id="one", ttl_s=60),
        "check": lambda: store.check(grant),
        "list": store.list,
    }
    proxy.fail(operation, *[DENIED] * 5)
    with pytest.raises(LeaseStoreMisconfigured) as caught:
        calls[call]()
    assert isinstance(caught.value, ConfigurationError)
    assert f"dynamodb:{operation} on table {store.table} was refused" in str(caught.value)
    assert proxy.seen.count(operation) == 1
    assert pauses == []


def test_a_missing_table_is_named(proxy: Proxy) -> None:
    store = DynamoLeases("nowhere", endpoint_url=proxy.url, region=REGION)
    with pytest.raises(LeaseStoreMisconfigured, match=r"nowhere.*Create the table"):
        store.acquire(NAME, run_id="one", ttl_s=60)


def test_a_table_of_another_shape_is_named(proxy: Proxy) -> None:
    table = f"other-{uuid4().hex}"
    client_of(proxy).create_table(
        TableName=table,
        KeySchema=[{"AttributeName": "id", "KeyType": "HASH"}],
        AttributeDefinitions=[{"AttributeName": "id", "AttributeType": "S"}],
        BillingMode="PAY_PER_REQUEST",
    )
    store = DynamoLeases(table, endpoint_url=proxy.url, region=REGION)
    with pytest.raises(LeaseStoreMisconfigured, match="needs a partition key `lease`"):
        store.acquire(NAME, run_id="one", ttl_s=60)


def test_no_credentials(proxy: Proxy, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY", "AWS_PROFILE"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("AWS_SHARED_CREDENTIALS_FILE", os.devnull)
    monkeypatch.setenv("AWS_CONFIG_FILE", os.devnull)
    monkeypatch.setenv("AWS_EC2_METADATA_DISABLED", "true")
    store = DynamoLeases("leases", endpoint_url=proxy.url, region=REGION)
    with pytest.raises(LeaseStoreMisconfigured, match="Give credentials"):
        store.list()


def test_creating_again_changes_nothing(store: DynamoLeases, proxy: Proxy) -> None:
    grant = store.acquire(NAME, run_id="one", ttl_s=60)
    proxy.fail("CreateTable", DENIED)
    again = open_leases(
        f"dynamodb://{store.table}?region={REGION}&endpoint_url={proxy.url}&create=true"
    )
    again.check(grant)
    assert "CreateTable" not in proxy.seen


def test_items_that_are_not_ours(store: DynamoLeases, proxy: Proxy) -> None:
    grant = store.acquire(NAME, run_id="one", ttl_s=60)
    client = client_of(proxy)
    item = client.get_item(TableName=store.table, Key={"lease": {"S": NAME}})["Item"]
    for change, error in (
        ({"schema_version": {"N": "2"}}, NewerLeases),
        ({"holder": {"S": '{"pid": 1}'}}, DamagedLeases),
        ({"token": {"S": "text"}}, DamagedLeases),
    ):
        client.put_item(TableName=store.table, Item={**item, **change})
        for call in (store.renew, store.check):
            with pytest.raises(error, match=NAME):
                call(grant)
    client.put_item(TableName=store.table, Item=item)
    store.check(grant)


def test_a_listing_of_many_pages(store: DynamoLeases, monkeypatch: pytest.MonkeyPatch) -> None:
    for n in range(7):
        store.acquire(f"n{n}", run_id="one", ttl_s=60)
    scan = store._client().scan
    monkeypatch.setattr(store._client(), "scan", lambda **kw: scan(**kw, Limit=3))
    assert [state.name for state in store.list()] == [f"n{n}" for n in range(7)]


def on(host: str, ahead_s: float, store: DynamoLeases, proxy: Proxy) -> DynamoLeases:
    return DynamoLeases(
        store.table, endpoint_url=proxy.url, region=REGION, machine=Elsewhere(host, ahead_s)
    )


def test_clocks_apart_within_the_allowance(store: DynamoLeases, proxy: Proxy) -> None:
    """A machine that is 4 s ahead does not take a lease that its holder still relies on."""
    grant = store.acquire(NAME, run_id="one", ttl_s=3.5)
    ahead = on("ahead", 4.0, store, proxy)
    with pytest.raises(LeaseHeld):
        ahead.acquire(NAME, run_id="two", ttl_s=60)
    store.check(grant)


def test_clocks_far_apart_are_reported_and_cannot_commit_twice(
    store: DynamoLeases, proxy: Proxy, caplog: pytest.LogCaptureFixture
) -> None:
    grant = store.acquire(NAME, run_id="one", ttl_s=60)
    wrong = on("wrong", 3600.0, store, proxy)
    with caplog.at_level(logging.WARNING):
        taken = wrong.acquire(NAME, run_id="two", ttl_s=60)
        wrong.check(taken)
    # Once, although it asked twice. The header counts whole seconds.
    assert len(re.findall(r"is \+360\d s from DynamoDB's", caplog.text)) == 1
    with pytest.raises(LeaseLost, match="run two"):
        store.check(grant)


def test_a_lease_from_the_future_is_explained(store: DynamoLeases, proxy: Proxy) -> None:
    on("wrong", 3600.0, store, proxy).acquire(NAME, run_id="two", ttl_s=60)
    with pytest.raises(LeaseHeld, match=r"The clock of wrong is at least 3\d\d\d s ahead of ours"):
        store.acquire(NAME, run_id="one", ttl_s=60)


def test_a_forked_child_asks_through_connections_of_its_own(store: DynamoLeases) -> None:
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
