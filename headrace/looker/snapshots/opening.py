"""From a location as a person writes it to a place for snapshots that is known to work."""

from __future__ import annotations

from headrace.lake.exceptions import LakeUnusable, StoreError
from headrace.lake.opening import make_store
from headrace.lake.s3_settings import S3Settings
from headrace.lake.store import Store
from headrace.looker.snapshots.exceptions import SnapshotsUnusable
from headrace.stopping import STOP, StopEvent


def open_snapshots(
    location: str, *, s3: S3Settings | None = None, check: bool = False, stop: StopEvent = STOP
) -> Store:
    """The store at `location`, of the same kind as a lake's.

    Args:
        location: a folder, or s3://bucket/prefix.
        s3: how to reach S3; boto3's own configuration if left out.
        check: try to list, write and remove there first.
        stop: ends waits between attempts.

    Raises:
        SnapshotsUnusable: an unknown form, a file, no permission, nobody answers.
    """
    try:
        store = make_store(location, s3=s3, stop=stop)
        if check:
            store.check()
    except LakeUnusable as error:
        raise SnapshotsUnusable(location, error.reason, hint=error.hint) from error
    except StoreError as error:
        raise SnapshotsUnusable(location, error.message, hint=error.hint) from error
    return store
