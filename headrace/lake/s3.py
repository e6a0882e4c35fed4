"""The lake in an S3 bucket, or in a store that speaks S3.

A part is one PUT: the object is there as a whole or not at all, and no multipart upload can be left
behind. Creating one is a PUT on the condition that there is none (`If-None-Match: *`), so that two
writers cannot both believe they made it.

Whether an object exists is concluded from 200, 404 and 412 alone. Without s3:ListBucket a missing
key answers 403, which is reported as a missing permission.
"""

from __future__ import annotations

import threading
from collections import defaultdict, deque
from collections.abc import Callable, Iterable, Iterator
from functools import partial
from typing import TYPE_CHECKING, Any, BinaryIO, TypeVar

from botocore.exceptions import ClientError

from headrace.lake.exceptions import ObjectMissing
from headrace.lake.s3_client import make_client, object_store_options
from headrace.lake.s3_reading import FastReader
from headrace.lake.s3_retry import S3Call, code_of, status_of
from headrace.lake.s3_settings import S3Settings, s3_location
from headrace.lake.store import PROBE_KEY, Guard, StoredObject, unguarded
from headrace.stopping import STOP, StopEvent

if TYPE_CHECKING:
    from mypy_boto3_s3 import S3Client

T = TypeVar("T")
_PRECONDITION_FAILED = 412
_RANGE_OF_NOTHING = 416
_NOT_IMPLEMENTED = 501
_REDIRECTS = {301, 302, 307, 308}
_OTHER_REGION = {"AuthorizationHeaderMalformed", "IllegalLocationConstraintException"}
#: Long enough for a hiccup, short enough for someone who mistyped an endpoint.
_CHECK_GIVE_UP_S = 15.0


class S3Store:
    """Objects under `s3://bucket/prefix`.

    Args:
        bucket: the bucket, which must exist.
        prefix: what stands before every key; slashes at its ends do not matter.
        settings: endpoint, region, time-outs, retries, checksums.
        stop: ends a wait between two attempts when it is set.
        client: a boto3 S3 client to use in place of one made from the settings.
    """

    def __init__(
        self,
        bucket: str,
        prefix: str = "",
        settings: S3Settings | None = None,
        *,
        stop: StopEvent = STOP,
        client: S3Client | None = None,
    ) -> None:
        self._settings = settings or S3Settings()
        self._bucket = bucket
        self._prefix = f"{prefix.strip('/')}/" if prefix.strip("/") else ""
        self._stop = stop
        credentials = None
        if client is None:
            client, credentials = make_client(self._settings)
        self._client = client
        self._conditional = True
        self._credentials = credentials
        self._reader: FastReader | None = None
        self._reader_known = credentials is None
        self._lock = threading.Lock()

    @property
    def location(self) -> str:
        """The bucket and prefix as s3://bucket/prefix."""
        return s3_location(self._bucket, self._prefix)

    @property
    def lists_together(self) -> bool:
        """See `Store.lists_together`."""
        return True

    def place(self, key: str) -> str:
        """The object as s3://bucket/prefix/key."""
        return f"s3://{self._bucket}/{self._prefix}{key}"

    def object_store_options(self) -> dict[str, str]:
        """How clients built on Rust's object_store (deltalake, Polars) reach the same bucket.

        Credentials, endpoint and region are those that boto3 found, as of this moment.
        """
        meta, style = self._client.meta, self._settings.addressing_style
        keys = self._credentials.get_frozen_credentials() if self._credentials else None
        return object_store_options(
            self._settings,
            self._bucket,
            endpoint_url=meta.endpoint_url,
            region=meta.region_name,
            virtual=style == "virtual",
            keys=keys,
        )

    def put(self, key: str, content: bytes, *, guard: Guard = unguarded) -> None:
        """See `Store.put`."""
        self._run("PutObject", key, lambda _: self._put(key, content, guard))

    def put_if_absent(self, key: str, content: bytes, *, guard: Guard = unguarded) -> bool:
        """See `Store.put_if_absent`.

        An attempt that failed without an answer may have stored the object. If a later one finds
        the key taken by these very bytes, it was this call that stored them.

        A store without conditional writes (it answers 501) is asked first and written then; the
        lease, which lets one writer in, has to suffice.
        """
        if not self._conditional:
            return self._put_if_not_found(key, content, guard)
        try:
            return self._run("PutObject", key, lambda nth: self._create(key, content, guard, nth))
        except _ConditionUnsupported:
            self._conditional = False
            return self._put_if_not_found(key, content, guard)

    def upload(self, key: str, content: BinaryIO) -> None:
        """Store a file as a whole, without a copy of it in memory: one PUT, as `put`.

        Args:
            key: of the object.
            content: open for reading; each attempt reads it from its beginning.
        """

        def attempt(_: int) -> None:
            content.seek(0)
            self._put(key, content, unguarded)

        self._run("PutObject", key, attempt)

    def get(self, key: str) -> bytes:
        """See `Store.get`."""
        return self._run("GetObject", key, lambda _: self._read(key))

    def tail(self, key: str, size_bytes: int) -> bytes:
        """See `Store.tail`."""
        return self._run("GetObject", key, lambda _: self._read_tail(key, size_bytes))

    def span(self, key: str, start: int, size_bytes: int) -> bytes:
        """See `Store.span`."""
        wanted = f"bytes={start}-{start + size_bytes - 1}"
        return self._run("GetObject", key, lambda _: self._read(key, Range=wanted))

    def exists(self, key: str) -> bool:
        """See `Store.exists`."""
        try:
            self._run("HeadObject", key, lambda _: self._head(key))
        except ObjectMissing:
            return False
        return True

    def entries(self, prefix: str) -> Iterator[StoredObject]:
        """See `Store.entries`: a request per page of 1,000 objects."""
        for page in self._pages(prefix):
            for item in page.get("Contents", ()):
                # Consoles and some stores keep an empty object for the folder itself.
                if not item["Key"].endswith("/"):
                    key = item["Key"][len(self._prefix) :]
                    changed = item.get("LastModified")
                    changed_us = round(changed.timestamp() * 1e6) if changed else 0
                    yield StoredObject(key, item["Size"], changed_us)

    def listings(self, prefixes: Iterable[str]) -> Iterator[dict[str, list[StoredObject]]]:
        """See `Store.listings`: 1,000 objects a request, whatever prefixes they are under.

        What lies between two prefixes is passed over, so that it takes no more requests than a
        listing of each.
        """
        wanted = sorted(set(prefixes))
        found: dict[str, list[StoredObject]] = defaultdict(list)
        left, after = deque(wanted), ""
        while left:
            after = max(after, left[0])
            page = self._page_after(_shared_start(wanted[0], wanted[-1]), after)
            for item in page.get("Contents", ()):
                after = item["Key"][len(self._prefix) :]
                folder, _, name = after.rpartition("/")
                if name:
                    found[f"{folder}/"].append(StoredObject(after, item["Size"]))
            complete = {}
            while left and (
                not page.get("IsTruncated") or (after > left[0] and not after.startswith(left[0]))
            ):
                complete[left[0]] = found[left[0]]
                left.popleft()
            found = defaultdict(list, {left[0]: found[left[0]]} if left else {})
            yield complete

    def folders(self, prefix: str) -> list[str]:
        """See `Store.folders`."""
        at = len(self._prefix) + len(prefix)
        return sorted(
            item["Prefix"][at:].rstrip("/")
            for page in self._pages(prefix)
            for item in page.get("CommonPrefixes", ())
        )

    def delete(self, key: str, *, guard: Guard = unguarded) -> None:
        """See `Store.delete`."""
        self._run("DeleteObject", key, lambda _: self._delete(key, guard))

    def sweep(self, prefix: str) -> list[str]:  # noqa: ARG002 - the protocol's signature
        """See `Store.sweep`: a killed PUT leaves nothing."""
        return []

    def check(self) -> None:
        """See `Store.check`: tries ListObjectsV2, PutObject and DeleteObject, for a short time."""
        patience_s = min(self._settings.give_up_after_s, _CHECK_GIVE_UP_S)
        hasty = S3Store(
            self._bucket,
            self._prefix,
            self._settings.model_copy(update={"give_up_after_s": patience_s}),
            stop=self._stop,
            client=self._client,
        )
        next(hasty._pages(""), None)
        hasty.put(PROBE_KEY, b"may be removed\n")
        hasty.delete(PROBE_KEY)

    def _run(self, action: str, key: str, attempt: Callable[[int], T]) -> T:
        def broken() -> None:
            # boto3 keeps connections whatever their age; this ends the idle ones and no others.
            self._client.close()

        return S3Call(action, self.place(key), self._settings, self._stop, broken).run(attempt)

    def _delete(self, key: str, guard: Guard) -> None:
        guard()
        self._client.delete_object(Bucket=self._bucket, Key=self._prefix + key)

    def _put(self, key: str, content: bytes | BinaryIO, guard: Guard, **condition: Any) -> None:
        guard()
        self._client.put_object(
            Bucket=self._bucket,
            Key=self._prefix + key,
            Body=content,
            **self._settings.encryption,  # type: ignore[arg-type]
            **condition,
        )

    def _create(self, key: str, content: bytes, guard: Guard, nth: int) -> bool:
        try:
            self._put(key, content, guard, IfNoneMatch="*")
        except ClientError as error:
            if status_of(error) == _NOT_IMPLEMENTED:
                raise _ConditionUnsupported from error
            if status_of(error) != _PRECONDITION_FAILED:
                raise
            return nth > 1 and self._read(key) == content
        return True

    def _put_if_not_found(self, key: str, content: bytes, guard: Guard) -> bool:
        if self.exists(key):
            return False
        self.put(key, content, guard=guard)
        return True

    def _read(self, key: str, **options: Any) -> bytes:
        answer = self._client.get_object(Bucket=self._bucket, Key=self._prefix + key, **options)
        with answer["Body"] as body:
            return body.read()

    def _read_tail(self, key: str, size_bytes: int) -> bytes:
        try:
            return self._read_by(
                lambda reader: reader.tail(self._prefix + key, size_bytes),
                lambda: self._read(key, Range=f"bytes=-{size_bytes}"),
            )
        except ClientError as error:
            if status_of(error) == _RANGE_OF_NOTHING:
                return b""
            raise

    def _head(self, key: str) -> None:
        self._client.head_object(Bucket=self._bucket, Key=self._prefix + key)

    def _pages(self, prefix: str) -> Iterator[Any]:
        where: dict[str, Any] = {
            "Bucket": self._bucket,
            "Prefix": self._prefix + prefix,
            "Delimiter": "/",
            "MaxKeys": self._settings.listing_page,
        }
        while True:
            page: Any = self._run("ListObjectsV2", prefix, partial(self._page, dict(where)))
            yield page
            if not page.get("IsTruncated"):
                return
            where["ContinuationToken"] = page["NextContinuationToken"]

    def _page_after(self, prefix: str, after: str) -> Any:
        """One page of everything under `prefix`, deeper levels too, from the key `after` on."""
        where = {
            "Bucket": self._bucket,
            "Prefix": self._prefix + prefix,
            "StartAfter": self._prefix + after,
            "MaxKeys": self._settings.listing_page,
        }
        return self._run("ListObjectsV2", prefix, partial(self._page, where))

    def _page(self, where: dict[str, Any], _: int) -> Any:
        listed: Callable[[], Any] = partial(self._client.list_objects_v2, **where)
        return self._read_by(lambda reader: reader.page(where), listed)

    def _read_by(self, fast: Callable[[FastReader], T], slow: Callable[[], T]) -> T:
        """Read without boto3 if that works, else with it; from then on, if the bucket moved."""
        reader = self._fast()
        if reader is None:
            return slow()
        try:
            return fast(reader)
        except ClientError as error:
            if status_of(error) not in _REDIRECTS and code_of(error) not in _OTHER_REGION:
                raise
        # The bucket is in another region than the settings say. boto3 follows, and remembers.
        with self._lock:
            self._reader = None
        return slow()

    def _fast(self) -> FastReader | None:
        """What reads footers and listings in place of boto3, if anything can; made when needed."""
        with self._lock:
            if not self._reader_known and self._credentials is not None:
                self._reader = FastReader.of(
                    self._client,
                    self._bucket,
                    self._settings,
                    self._credentials.get_frozen_credentials,
                )
                self._reader_known = True
            return self._reader


class _ConditionUnsupported(Exception):
    """The store does not know `If-None-Match` on PUT."""


def _shared_start(lowest: str, highest: str) -> str:
    """What the lowest and the highest of some prefixes begin with, and so all between them do."""
    same = 0
    for left, right in zip(lowest, highest, strict=False):
        if left != right:
            break
        same += 1
    return lowest[:same]
