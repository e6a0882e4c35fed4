"""S3 in trouble: throttled, broken, refusing, half-way. Against a real server behind a proxy."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from uuid import uuid4

import pytest

from headrace.lake import S3Settings, open_lake
from headrace.lake.exceptions import (
    LakeUnusable,
    ObjectMissing,
    StoreDenied,
    StoreUnavailable,
    StoreUnusable,
)
from headrace.lake.s3 import S3Store
from headrace.stopping import StopEvent, Stopped
from tests.lake_samples import FETCHED_AT, SOURCE, trades
from tests.s3_proxy import Answer, Request, S3Proxy, s3_proxy
from tests.services_fixtures import (
    BUCKET,
    free_port,
    moto_url,
    s3_client,
    seaweed_url,
    settings_for,
)
from tests.support.places import aws_environment

__all__ = ["moto_url", "seaweed_url"]

pytestmark = pytest.mark.services

SLOW_DOWN = Answer(503, "SlowDown")
BROKEN = Answer(500, "InternalError")
REFUSED = Answer(403, "AccessDenied")
CUT = Answer(0)


@pytest.fixture(params=["seaweed", pytest.param("moto", marks=pytest.mark.slow)])
def proxy(request: pytest.FixtureRequest) -> Iterator[S3Proxy]:
    with s3_proxy(request.getfixturevalue(f"{request.param}_url")) as proxy:
        yield proxy


@pytest.fixture
def prefix() -> str:
    return f"faults/{uuid4().hex}"


def store_at(proxy: S3Proxy, prefix: str, **changes: object) -> S3Store:
    return S3Store(BUCKET, prefix, settings_for(proxy.url, **changes))


@pytest.mark.parametrize(
    "trouble",
    [
        SLOW_DOWN,
        CUT,
        pytest.param(BROKEN, marks=pytest.mark.slow),
        pytest.param(Answer(429, "TooManyRequests"), marks=pytest.mark.slow),
    ],
)
def test_trouble_that_passes_costs_attempts_and_nothing_else(
    proxy: S3Proxy, prefix: str, trouble: Answer
) -> None:
    store = store_at(proxy, prefix)
    proxy.script("PUT", trouble, key="part", times=3)
    proxy.script("GET", trouble, key="part", times=2)

    assert store.put_if_absent("a/part", b"content" * 1_000) is True

    assert len(proxy.requests("PUT", "part")) == 4
    assert store.get("a/part") == b"content" * 1_000
    assert [entry.key for entry in store.entries("a/")] == ["a/part"]


@pytest.mark.parametrize(
    "lost", [Answer(500, "InternalError", forward=True), Answer(0, forward=True)]
)
def test_an_answer_lost_after_the_object_was_stored(
    proxy: S3Proxy, prefix: str, lost: Answer
) -> None:
    store = store_at(proxy, prefix)
    proxy.script("PUT", lost, key="part")

    assert store.put_if_absent("a/part", b"mine") is True
    assert store.put_if_absent("a/part", b"mine") is False

    assert [entry.key for entry in store.entries("a/")] == ["a/part"]


def test_a_lost_answer_does_not_claim_what_another_stored(proxy: S3Proxy, prefix: str) -> None:
    store_at(proxy, prefix).put("a/part", b"another's")
    proxy.script("PUT", Answer(500, "InternalError", forward=True), key="part")

    assert store_at(proxy, prefix).put_if_absent("a/part", b"mine") is False


def test_trouble_for_ever_ends_within_the_limit(proxy: S3Proxy, prefix: str) -> None:
    store = store_at(proxy, prefix, give_up_after_s=1.0)
    proxy.script("PUT", SLOW_DOWN, key="part", times=None)
    started = time.monotonic()

    with pytest.raises(StoreUnavailable, match="SlowDown") as caught:
        store.put_if_absent("a/part", b"x")

    error = caught.value
    assert time.monotonic() - started < 30
    assert error.attempts == len(proxy.requests("PUT", "part")) > 1
    assert (error.action, error.place) == ("PutObject", f"s3://{BUCKET}/{prefix}/a/part")
    assert list(store.entries("a/")) == []


def test_a_server_that_hangs_is_given_up_and_asked_again(proxy: S3Proxy, prefix: str) -> None:
    store = store_at(proxy, prefix, read_timeout_s=0.3)
    proxy.script("GET", Answer(500, delay_s=30), key="part")
    store.put("a/part", b"x")

    assert store.get("a/part") == b"x"
    assert len(proxy.requests("GET", "part")) == 2


def test_a_stop_ends_the_wait_between_attempts(proxy: S3Proxy, prefix: str) -> None:
    stop = StopEvent()
    settings = settings_for(proxy.url, give_up_after_s=60.0, longest_pause_s=30.0)
    store = S3Store(BUCKET, prefix, settings, stop=stop)
    proxy.script("PUT", SLOW_DOWN, times=None)
    threading.Timer(0.5, stop.set).start()
    started = time.monotonic()

    with pytest.raises(Stopped):
        store.put("a/part", b"x")
    assert time.monotonic() - started < 25


def test_a_missing_permission_is_named_at_once(proxy: S3Proxy, prefix: str) -> None:
    store = store_at(proxy, prefix)
    proxy.script("PUT", REFUSED, times=None)

    with pytest.raises(StoreDenied) as caught:
        store.put_if_absent("a/part", b"x")

    message = str(caught.value)
    assert "PutObject" in message
    assert f"s3://{BUCKET}/{prefix}/a/part" in message
    assert "s3:PutObject" in message
    assert len(proxy.requests("PUT")) == 1


def test_a_refusal_says_nothing_about_what_exists(proxy: S3Proxy, prefix: str) -> None:
    store = store_at(proxy, prefix)
    proxy.script("HEAD", REFUSED, times=None)
    proxy.script("GET", REFUSED, key="part", times=None)

    for ask in (store.exists, store.get, lambda key: store.tail(key, 8)):
        with pytest.raises(StoreDenied) as caught:
            ask("a/part")
        assert not isinstance(caught.value, ObjectMissing)
        assert "does not say whether the object exists" in str(caught.value)


@pytest.mark.parametrize(
    ("method", "permission"),
    [("GET", "s3:ListBucket"), ("PUT", "s3:PutObject"), ("DELETE", "s3:DeleteObject")],
)
def test_a_missing_permission_is_found_before_any_work(
    proxy: S3Proxy, prefix: str, method: str, permission: str
) -> None:
    proxy.script(method, REFUSED, times=None)

    with pytest.raises(LakeUnusable, match=permission):
        open_lake(f"s3://{BUCKET}/{prefix}", s3=settings_for(proxy.url))


def test_a_missing_bucket_is_found_before_any_work(proxy: S3Proxy) -> None:
    with pytest.raises(LakeUnusable, match="no such bucket"):
        open_lake("s3://no-such-bucket/x", s3=settings_for(proxy.url))


def test_an_endpoint_without_a_server() -> None:
    settings = settings_for(f"http://127.0.0.1:{free_port()}", give_up_after_s=0.5)

    with pytest.raises(LakeUnusable, match="Could not connect"):
        open_lake(f"s3://{BUCKET}/x", s3=settings)


def test_a_server_that_comes_back_while_the_store_insists(seaweed_url: str, prefix: str) -> None:
    port = free_port()
    store = S3Store(BUCKET, prefix, settings_for(f"http://127.0.0.1:{port}", give_up_after_s=30.0))
    done: list[bool] = []
    writer = threading.Thread(target=lambda: done.append(store.put_if_absent("a/part", b"x")))

    writer.start()
    time.sleep(1.0)
    assert not done
    with s3_proxy(seaweed_url, port=port):
        writer.join(timeout=20)

    assert done == [True]


def test_an_upload_that_breaks_off_leaves_nothing(proxy: S3Proxy, prefix: str) -> None:
    store = store_at(proxy, prefix, give_up_after_s=0.3, longest_pause_s=0.1)
    proxy.script("PUT", Answer(0, forward_half=True), key="part", times=None)

    with pytest.raises(StoreUnavailable):
        store.put_if_absent("a/part", bytes(500_000))

    proxy.rules.clear()
    assert list(store.entries("a/")) == []
    with pytest.raises(ObjectMissing):
        store.get("a/part")
    uploads = s3_client(proxy.upstream).list_multipart_uploads(Bucket=BUCKET)
    assert not uploads.get("Uploads")


def test_a_store_without_conditional_writes_is_asked_first(proxy: S3Proxy, prefix: str) -> None:
    store = store_at(proxy, prefix)
    conditional = _has_header("If-None-Match")
    proxy.script("PUT", Answer(501, "NotImplemented"), times=None, where=conditional)

    assert store.put_if_absent("a/part", b"first") is True
    assert store.put_if_absent("a/part", b"second") is False

    assert store.get("a/part") == b"first"
    assert len([r for r in proxy.requests("PUT") if conditional(r)]) == 1


def test_a_store_that_refuses_checksum_headers(proxy: S3Proxy, prefix: str) -> None:
    refusal = Answer(400, "InvalidArgument")
    proxy.script("PUT", refusal, times=None, where=_has_header("x-amz-checksum"))
    proxy.script("PUT", refusal, times=None, where=_has_header("x-amz-sdk-checksum"))
    rows = trades(range(1, 2_001))

    with pytest.raises(StoreUnusable, match="when_required"):
        store_at(proxy, prefix).put("a/part", b"x")
    settings = settings_for(proxy.url, checksums="when_required")
    raw = open_lake(f"s3://{BUCKET}/{prefix}", s3=settings).raw("coinbase")
    receipt = raw.write("BTC-USD", 1, 2_000, rows, source=SOURCE, fetched_at=FETCHED_AT)

    assert raw.read("BTC-USD").equals(rows)
    raw.verify(receipt.part)
    direct = s3_client(proxy.upstream).get_object(Bucket=BUCKET, Key=f"{prefix}/{receipt.part.key}")
    assert direct["Body"].read() == raw.store.get(receipt.part.key)


@pytest.mark.parametrize("by", ["settings", "environment"])
def test_a_store_with_a_host_name_is_asked_by_path_however_it_was_named(
    proxy: S3Proxy, prefix: str, by: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """A bucket as a part of the host's name is AWS's own way; few other stores have such names."""
    named = proxy.url.replace("127.0.0.1", "localhost")
    # Neither the developer's own files nor the variables of another store.
    for variable in ("AWS_CONFIG_FILE", "AWS_SHARED_CREDENTIALS_FILE"):
        monkeypatch.setenv(variable, str(tmp_path / "none"))
    settings = settings_for(named)
    if by == "environment":
        for variable, value in aws_environment(named).items():
            monkeypatch.setenv(variable, value)
        settings = S3Settings()
    store = S3Store(BUCKET, prefix, settings)
    store.check()
    store.put("a/part", b"content")

    assert (store.tail("a/part", 3), store.get("a/part")) == (b"ent", b"content")
    assert [entry.key for entry in store.entries("a/")] == ["a/part"]
    asked = [request for method in ("GET", "PUT", "DELETE") for request in proxy.requests(method)]
    assert len(asked) >= 6
    for request in asked:
        assert request.path.startswith(f"/{BUCKET}"), request.path
        assert request.headers["Host"].startswith("localhost:")


def test_secrets_are_not_shown() -> None:
    settings = S3Settings(access_key_id="id", secret_access_key="very secret")

    assert "very secret" not in f"{settings!r} {settings} {settings.model_dump()}"


def _has_header(name: str) -> Callable[[Request], bool]:
    def has(request: Request) -> bool:
        return any(header.lower().startswith(name.lower()) for header in request.headers)

    return has
