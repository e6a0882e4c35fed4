"""Which of two ways an S3 store reads: its own, or boto3's where only that knows how."""

from __future__ import annotations

import io
from typing import Any

import pytest
from botocore.exceptions import ClientError

from headrace.lake.exceptions import StoreDenied
from headrace.lake.s3 import S3Store
from headrace.lake.s3_settings import S3Settings
from headrace.leases import LeaseLost

EMPTY: dict[str, Any] = {"Contents": [], "IsTruncated": False}


def refused(status: int, code: str) -> ClientError:
    return ClientError(
        {"Error": {"Code": code}, "ResponseMetadata": {"HTTPStatusCode": status}},  # type: ignore[typeddict-item]
        "GetObject",
    )


class Boto:
    """A client that answers everything and counts."""

    def __init__(self, failing: ClientError | None = None) -> None:
        self.asked = 0
        self._failing = failing

    def put_object(self, **_what: Any) -> None:
        self.asked += 1
        if self._failing:
            raise self._failing

    delete_object = put_object

    def list_objects_v2(self, **_where: Any) -> dict[str, Any]:
        self.asked += 1
        return {"Contents": [{"Key": "p/raw/a", "Size": 3}], "IsTruncated": False}

    def get_object(self, **_what: Any) -> dict[str, Any]:
        self.asked += 1
        return {"Body": io.BytesIO(b"end")}


class Reader:
    """A reader that fails where the test says."""

    def __init__(self, error: ClientError | None = None) -> None:
        self.error = error
        self.asked = 0

    def page(self, _where: Any) -> dict[str, Any]:
        return self._answer(EMPTY)

    def tail(self, _key: str, _size: int) -> bytes:
        return self._answer(b"own")

    def _answer(self, answer: Any) -> Any:
        self.asked += 1
        if self.error:
            raise self.error
        return answer


def store_with(reader: Reader) -> tuple[S3Store, Boto]:
    boto = Boto()
    settings = S3Settings(endpoint_url="http://127.0.0.1:9", give_up_after_s=0)
    store = S3Store("lake", "p", settings, client=boto)  # type: ignore[arg-type]
    store._reader = reader  # type: ignore[assignment]
    return store, boto


def test_boto3_is_left_alone_where_the_reader_can() -> None:
    store, boto = store_with(Reader())

    assert (list(store.entries("raw/")), store.tail("a", 3)) == ([], b"own")
    assert boto.asked == 0


@pytest.mark.parametrize(
    "error",
    [
        refused(301, "PermanentRedirect"),
        refused(307, "TemporaryRedirect"),
        refused(400, "AuthorizationHeaderMalformed"),
    ],
)
def test_a_bucket_in_another_region_is_read_by_boto3_from_then_on(error: ClientError) -> None:
    reader = Reader(error)
    store, boto = store_with(reader)

    assert [entry.key for entry in store.entries("raw/")] == ["raw/a"]
    assert store.tail("a", 3) == b"end"
    assert (reader.asked, boto.asked) == (1, 2)


@pytest.mark.parametrize("action", ["put", "put_if_absent", "delete"])
def test_the_guard_is_asked_before_each_attempt(action: str) -> None:
    """An attempt may follow a pause, in which the process was stopped."""
    boto = Boto(failing=refused(503, "SlowDown"))
    store = S3Store("lake", "p", S3Settings(), client=boto)  # type: ignore[arg-type]
    attempts: list[int] = []

    def guard() -> None:
        attempts.append(boto.asked)
        if len(attempts) == 2:
            raise LeaseLost("coinbase/BTC-USD", 1, "it was not renewed for 60 s")

    content = () if action == "delete" else (b"content",)
    with pytest.raises(LeaseLost):
        getattr(store, action)("a", *content, guard=guard)
    assert attempts == [0, 1]


def test_another_refusal_is_not_asked_again_by_boto3() -> None:
    store, boto = store_with(Reader(refused(403, "AccessDenied")))

    with pytest.raises(StoreDenied):
        store.tail("a", 3)
    assert boto.asked == 0
