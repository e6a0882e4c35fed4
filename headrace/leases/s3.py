"""Leases of many machines in an S3 bucket, say that of the lake: no further service is needed.

One object per name, replaced by PUTs on a condition: `If-None-Match: *` where there was none, and
`If-Match` with the ETag that was read where there was one ("Add preconditions to S3 operations with
conditional requests" in the documentation of S3). Time is the store's, from the `Date` header of
its answers. A store that ignores one of these conditions would let two runs hold one lease; it is
recognised before the first write of a process, and refused.
"""

from __future__ import annotations

import json
import secrets
from collections.abc import Callable, Iterable, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from email.utils import parsedate_to_datetime
from typing import TYPE_CHECKING, Any, TypeVar
from urllib.parse import quote

from botocore.exceptions import ClientError

from headrace.errors import ConfigurationError
from headrace.lake.exceptions import StoreError, StoreUnavailable
from headrace.lake.s3_client import make_client
from headrace.lake.s3_retry import S3Call, code_of, status_of
from headrace.lake.s3_settings import S3Settings, s3_from_environment, s3_location
from headrace.leases.clock import SERVERS_APART_S, StoreClock
from headrace.leases.exceptions import (
    DamagedLeases,
    LeaseStoreMisconfigured,
    LeaseStoreUnavailable,
    NewerLeases,
)
from headrace.leases.model import Row
from headrace.leases.store import LeaseStore, PerProcess
from headrace.leases.this_machine import THIS_MACHINE, Machine
from headrace.stopping import StopEvent

if TYPE_CHECKING:
    from mypy_boto3_s3 import S3Client

T = TypeVar("T")

#: Where leases stand below the prefix, beside the layers of a lake.
FOLDER = "_leases/"
_SUFFIX = ".json"
_SCHEMA_VERSION = 1
_PROOF = "conditional-put"
_PROOF_TEXT = b"By this object Headrace sees whether the store keeps conditions of a PUT.\n"
_READERS = 8

_CONDITION_FAILED = 412
_ELSEWHERE = (
    "Point HEADRACE_LEASES to a bucket of a store with conditional PUT, to postgres:// or to "
    "dynamodb://TABLE"
)
_REACH = "Look at HEADRACE_LEASES, AWS_ENDPOINT_URL_S3 and the network"


@dataclass(frozen=True, slots=True)
class _Stored:
    """An object as it was read."""

    content: bytes
    etag: str


class _StoredRow(Row):
    """A row, and the ETag of the object that it was read from."""

    etag: str


class S3Leases(LeaseStore):
    """`LeaseStore` under `s3://bucket/prefix/_leases/`.

    Needs `s3:GetObject` and `s3:PutObject` there, and `s3:ListBucket`, without which S3 does not
    say that there is no such object. Throttling, 5xx and broken connections are tried again for
    some seconds, also while the process is asked to stop: what is fetched is to be committed.

    Args:
        bucket: the bucket, which must exist.
        prefix: what stands before every key.
        settings: how to reach it; the environment's if left out.
        max_clock_skew_s: how far the clocks of the store's servers may be apart.
        clock: the store's time.
    """

    def __init__(
        self,
        bucket: str,
        prefix: str = "",
        settings: S3Settings | None = None,
        *,
        max_clock_skew_s: float = SERVERS_APART_S,
        machine: Machine = THIS_MACHINE,
        clock: StoreClock | None = None,
    ) -> None:
        self._time = clock or StoreClock(machine.boot_s, resolution_s=1.0)
        super().__init__(machine=machine, max_clock_skew_s=max_clock_skew_s, clock=self._time)
        # An answer is worth waiting for only well within the life of a lease.
        limits = {"connect_timeout_s": 2.0, "read_timeout_s": 5.0, "give_up_after_s": 10.0}
        found = settings or s3_from_environment()
        self._settings = found.model_copy(update={**limits, "longest_pause_s": 1.0})
        self._bucket = bucket
        self._root = f"{prefix.strip('/')}/{FOLDER}".lstrip("/")
        self._where = s3_location(bucket, self._root)
        self._is_proven = False
        self._connection = PerProcess(self._connected)

    @property
    def where(self) -> str:
        """The folder as s3://bucket/prefix/_leases."""
        return self._where

    def prove(self, *, writers: int = 4) -> None:
        """See `LeaseStore.prove`: several writers replace one version of an object at once.

        A store that compares and writes in two steps mostly fails here, though not with certainty.

        Raises:
            LeaseStoreMisconfigured: several did, or the store keeps no condition at all.
        """
        self._prove_conditions()
        found = self._get(_PROOF)
        if found is None:
            raise LeaseStoreUnavailable(self.where, f"{_PROOF} was removed just now")
        contents = [_PROOF_TEXT + secrets.token_hex(8).encode() for _ in range(writers)]
        with ThreadPoolExecutor(writers) as pool:
            written = list(
                pool.map(lambda content: self._put(_PROOF, content, etag=found.etag), contents)
            )
        if sum(written) > 1:
            raise self._unconditional(f"{sum(written)} times what may be written once")

    def _read(self, name: str) -> _StoredRow | None:
        key = _key(name)
        found = self._get(key)
        return self._parsed(key, found) if found else None

    def _read_many(self, names: Iterable[str]) -> Iterable[Row | None]:
        with ThreadPoolExecutor(_READERS) as pool:
            return list(pool.map(self._read, names))

    def _read_all(self) -> Iterable[Row]:
        keys = self._run("ListObjectsV2", "", self._keys)
        with ThreadPoolExecutor(_READERS) as pool:
            found = list(pool.map(self._get, keys))
        return [
            self._parsed(key, stored) for key, stored in zip(keys, found, strict=True) if stored
        ]

    def _swap(self, seen: Row | None, new: Row) -> bool:
        self._prove_conditions()
        content = {"schema_version": _SCHEMA_VERSION, **new.model_dump(mode="json")}
        etag = seen.etag if isinstance(seen, _StoredRow) else None
        return self._put(_key(new.name), json.dumps(content).encode(), etag=etag)

    def _remove(self, seen: Row) -> None:
        # Not every store knows a condition on DELETE. A process that took the lease since loses it,
        # which it notices, and nothing is ever held twice.
        key = _key(seen.name)
        self._run(
            "DeleteObject",
            key,
            lambda s3: s3.delete_object(Bucket=self._bucket, Key=self._root + key),
        )

    def _prove_conditions(self) -> None:
        """Look once whether the store keeps both conditions, by PUTs that it has to refuse.

        Raises:
            LeaseStoreMisconfigured: it does not.
        """
        if self._is_proven:
            return
        if self._put(_PROOF, _PROOF_TEXT) and self._put(_PROOF, _PROOF_TEXT):
            raise self._unconditional("what If-None-Match: * forbids")
        if self._put(_PROOF, _PROOF_TEXT, etag=f'"{0:032x}"'):
            raise self._unconditional("what If-Match with another ETag forbids")
        self._is_proven = True

    def _unconditional(self, what: str) -> LeaseStoreMisconfigured:
        reason = f"the store wrote {what}, so two runs could hold one lease"
        return LeaseStoreMisconfigured(self.where, "conditional PUT", reason, hint=_ELSEWHERE)

    def _get(self, key: str) -> _Stored | None:
        return self._run("GetObject", key, lambda s3: self._got(s3, key))

    def _got(self, s3: S3Client, key: str) -> _Stored | None:
        asked_boot_s = self._machine.boot_s()
        try:
            answer = s3.get_object(Bucket=self._bucket, Key=self._root + key)
        except ClientError as error:
            if not _is_missing(error):
                raise
            self._note(error.response["ResponseMetadata"]["HTTPHeaders"], asked_boot_s)
            return None
        self._note(answer["ResponseMetadata"]["HTTPHeaders"], asked_boot_s)
        with answer["Body"] as body:
            return _Stored(body.read(), answer["ETag"])

    def _put(self, key: str, content: bytes, *, etag: str | None = None) -> bool:
        """Replace exactly what has this ETag, or write where there is nothing; whether it did."""
        condition: dict[str, Any] = {"IfMatch": etag} if etag else {"IfNoneMatch": "*"}

        def attempt(s3: S3Client) -> bool:
            try:
                s3.put_object(
                    Bucket=self._bucket,
                    Key=self._root + key,
                    Body=content,
                    **self._settings.encryption,  # type: ignore[arg-type]
                    **condition,
                )
            except ClientError as error:
                # Perhaps an earlier attempt was stored although its answer was lost: the caller
                # looks. 404: there is nothing any more that could match.
                if status_of(error) == _CONDITION_FAILED or (etag and _is_missing(error)):
                    return False
                raise
            return True

        return self._run("PutObject", key, attempt)

    def _keys(self, s3: S3Client) -> list[str]:
        pages = s3.get_paginator("list_objects_v2").paginate(Bucket=self._bucket, Prefix=self._root)
        named = (
            item["Key"][len(self._root) :] for page in pages for item in page.get("Contents", ())
        )
        return [key for key in named if key.endswith(_SUFFIX)]

    def _run(self, action: str, key: str, ask: Callable[[S3Client], T]) -> T:
        """One call with its attempts.

        Raises:
            LeaseStoreUnavailable: it still failed after the last attempt.
            LeaseStoreMisconfigured: trying again cannot help.
        """
        place = f"{self.where}/{key}"
        # A stop of its own, which is never set: renewals and commits go on to the end of a run.
        call = S3Call(
            action, place, self._settings, StopEvent(), lambda: self._connection.get().close()
        )
        try:
            return call.run(lambda _: ask(self._connection.get()))
        except StoreUnavailable as error:
            raise LeaseStoreUnavailable(
                self.where, f"{action}: {error.reason}", hint=_REACH
            ) from error
        except StoreError as error:
            hint = f"{error.hint or 'Look at the store'} (HEADRACE_LEASES names it)"
            if isinstance(error.__cause__, ClientError) and status_of(error.__cause__) == 501:
                hint = _ELSEWHERE
            raise LeaseStoreMisconfigured(place, f"s3:{action}", error.reason, hint=hint) from error

    def _connected(self) -> S3Client:
        try:
            return make_client(self._settings)[0]
        except ConfigurationError as error:
            raise LeaseStoreMisconfigured(
                self.where, "a connection", error.message, hint=error.hint
            ) from error

    def _note(self, headers: Mapping[str, str], asked_boot_s: float) -> None:
        try:
            said = parsedate_to_datetime(headers["date"])
        except (KeyError, ValueError) as error:
            reason = "its answers do not say what time it is (the header Date)"
            raise LeaseStoreMisconfigured(
                self.where, "GetObject", reason, hint=_ELSEWHERE
            ) from error
        self._time.note(said, asked_boot_s=asked_boot_s)

    def _parsed(self, key: str, stored: _Stored) -> _StoredRow:
        where = f"{self.where}/{key}"
        try:
            fields = json.loads(stored.content)
            version = int(fields.pop("schema_version"))
            if version > _SCHEMA_VERSION:
                raise NewerLeases(where, version, _SCHEMA_VERSION)
            row = _StoredRow(etag=stored.etag, **fields)
            if _key(row.name) != key:
                raise ValueError(f"it is of {row.name}")
        except (AttributeError, KeyError, TypeError, ValueError) as error:
            hint = "Make sure that no run is working under this name, then delete the object"
            raise DamagedLeases(where, f"it does not read ({error})", hint=hint) from error
        return row


def _key(name: str) -> str:
    """The object of a lease: what is no letter, digit, dot, dash or underscore as `=2F`."""
    return quote(name, safe="").replace("%", "=") + _SUFFIX


def _is_missing(error: ClientError) -> bool:
    return status_of(error) == 404 and code_of(error) != "NoSuchBucket"
