"""Anchors in buckets: with object lock nothing that was put there can be hidden or covered."""

from __future__ import annotations

from uuid import uuid4

import pytest
from botocore.exceptions import ClientError

from headrace.lake.s3_locked import LockedStore
from headrace.sot.anchors.exceptions import AnchorsUnavailable
from headrace.sot.anchors.places import S3Anchors
from tests.services_fixtures import s3_client, settings_for

SERVERS = ["moto_url", pytest.param("seaweed_url", marks=pytest.mark.services)]


@pytest.fixture(params=SERVERS)
def url(request: pytest.FixtureRequest) -> str:
    found: str = request.getfixturevalue(request.param)
    return found


def place_in(url: str, *, locked: bool) -> tuple[S3Anchors, str]:
    bucket = f"anchors-{uuid4().hex[:12]}"
    client = s3_client(url)
    client.create_bucket(Bucket=bucket, ObjectLockEnabledForBucket=locked)
    if locked:
        retention = {"Mode": "COMPLIANCE", "Days": 1}
        client.put_object_lock_configuration(
            Bucket=bucket,
            ObjectLockConfiguration={
                "ObjectLockEnabled": "Enabled",
                "Rule": {"DefaultRetention": retention},
            },
        )
    return S3Anchors(LockedStore(bucket, "ours", settings_for(url))), bucket


def test_what_is_locked_stays_whatever_is_done_to_its_key(url: str) -> None:
    place, bucket = place_in(url, locked=True)
    assert list(place.lines()) == []
    assert place.append(b"first\n", "2026-01-30T034500Z-aa").startswith("locked until ")
    place.append(b"second\n", "2026-01-31T034500Z-bb")
    client = s3_client(url)
    keys = [
        f"ours/sot-heads/{name}.json" for name in ("2026-01-30T034500Z-aa", "2026-01-31T034500Z-bb")
    ]
    client.put_object(Bucket=bucket, Key=keys[0], Body=b"covered\n")
    client.delete_object(Bucket=bucket, Key=keys[1])
    assert [line for _, line in place.lines()] == [b"first\n", b"covered\n", b"second\n"]
    [version] = [
        one["VersionId"]
        for one in client.list_object_versions(Bucket=bucket, Prefix=keys[1])["Versions"]
    ]
    with pytest.raises(ClientError):
        client.delete_object(Bucket=bucket, Key=keys[1], VersionId=version)


@pytest.mark.parametrize("locked", [True, False])
def test_a_bucket_of_another_log_takes_no_head(url: str, locked: bool) -> None:
    place, _ = place_in(url, locked=locked)
    lines = [b'{"head":{"payload":{"store":"%d"}}}\n' % log for log in (1, 2)]
    place.append(lines[0], "2026-01-30T034500Z-aa")
    with pytest.raises(AnchorsUnavailable, match="heads of log 1, this one is of log 2"):
        place.append(lines[1], "2026-01-31T034500Z-bb")
    place.append(lines[0], "2026-01-31T034500Z-cc")
    assert [line for _, line in place.lines()] == [lines[0], lines[0]]


def test_a_bucket_without_locks_says_so(url: str) -> None:
    place, _ = place_in(url, locked=False)
    assert "no object lock" in place.append(b"first\n", "a")
    with pytest.raises(AnchorsUnavailable, match="there already"):
        place.append(b"other\n", "a")
    assert [line for _, line in place.lines()] == [b"first\n"]


def test_a_bucket_that_is_not_there_is_unavailable(url: str) -> None:
    place = S3Anchors(LockedStore("absent-bucket", "", settings_for(url)))
    with pytest.raises(AnchorsUnavailable, match="absent-bucket"):
        list(place.lines())
