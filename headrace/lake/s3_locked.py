"""A bucket with object lock (WORM): what was put there stays, whatever is done to its key later.

Deleting a locked object only hides it, and a PUT only covers it: the version stays. So every
version is read, hidden or not. Retention is the bucket's own (its default), which no writer's
credentials need to be able to choose.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from botocore.exceptions import ClientError

from headrace.lake.exceptions import LakeUnusable
from headrace.lake.s3 import S3Store
from headrace.lake.s3_retry import status_of
from headrace.lake.s3_settings import S3_FORM, bucket_and_prefix, s3_from_environment

#: What stores answer that have no versions, or no object lock, or do not know of them.
_UNKNOWN = {400, 404, 405, 501}


class LockedStore(S3Store):
    """A bucket whose versions are looked at, too."""

    def protection(self, key: str) -> str:
        """Until when an object is locked, in words."""

        def attempt(_: int) -> Any:
            return self._client.head_object(Bucket=self._bucket, Key=self._prefix + key)

        until = self._run("HeadObject", key, attempt).get("ObjectLockRetainUntilDate")
        if until is None:
            return "not locked: the bucket has no object lock with a default retention"
        return f"locked until {until:%Y-%m-%d}"

    def versions(self, prefix: str, *, last: bool = False) -> Iterator[tuple[str, bytes]]:
        """Every version of every object under a prefix, the oldest of a key first, and its place.

        Of a store without versions, the objects. With `last` only the last one, whose key is the
        largest.
        """
        chosen = slice(-1 if last else None, None)
        try:
            found = list(self._run("ListObjectVersions", prefix, lambda _: self._listed(prefix)))
        except ClientError as error:
            if status_of(error) not in _UNKNOWN:
                raise
            found = []
        if not found:
            for entry in sorted(self.entries(prefix), key=lambda entry: entry.key)[chosen]:
                yield self.place(entry.key), self.get(entry.key)
            return
        for key, version in found[chosen]:
            options = {} if version == "null" else {"VersionId": version}

            def attempt(_: int, key: str = key, options: dict[str, str] = options) -> bytes:
                return self._read(key, **options)

            where = self.place(key) + (f" (version {version})" if options else "")
            yield where, self._run("GetObject", key, attempt)

    def _listed(self, prefix: str) -> list[tuple[str, str]]:
        pages = self._client.get_paginator("list_object_versions").paginate(
            Bucket=self._bucket, Prefix=self._prefix + prefix
        )
        found = [
            (version["Key"][len(self._prefix) :], version["VersionId"])
            for page in pages
            for version in page.get("Versions", ())
        ]
        # Those of a key are listed from the newest to the oldest; times are of whole seconds.
        found.reverse()
        return sorted(found, key=lambda each: each[0])


def open_locked(location: str) -> LockedStore:
    """The bucket at `s3://bucket/prefix`, reached as the environment says; nothing is tried.

    Raises:
        LakeUnusable: the location has a form that cannot work.
    """
    parts = bucket_and_prefix(location)
    if parts is None:
        raise LakeUnusable(location, "not a bucket and prefix", hint=S3_FORM)
    return LockedStore(*parts, s3_from_environment())
