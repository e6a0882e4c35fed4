"""From a location as a person writes it to a lake that is known to work."""

from __future__ import annotations

import re
from pathlib import Path

from headrace.errors import ConfigurationError
from headrace.lake.exceptions import LakeUnusable, StoreError
from headrace.lake.grid import DEFAULT_CELL_PAGES, Grid, load_or_create_grid, recorded_grid
from headrace.lake.local import LocalStore
from headrace.lake.names import RAW_ROOT, is_exchange
from headrace.lake.raw import RawLake
from headrace.lake.s3_settings import (
    S3_FORM,
    S3Settings,
    bucket_and_prefix,
    s3_from_environment,
    s3_location,
)
from headrace.lake.store import Store
from headrace.stopping import STOP, StopEvent

_SCHEME = re.compile(r"([A-Za-z][A-Za-z0-9+.-]*)://")


class Lake:
    """A place that was found to work; opens the layers in it.

    Args:
        store: the folder or bucket.
    """

    def __init__(self, store: Store) -> None:
        self.store = store

    @property
    def location(self) -> str:
        """The root: an absolute path, or s3://bucket/prefix."""
        return self.store.location

    def raw(self, exchange: str, *, cell_pages: int = DEFAULT_CELL_PAGES) -> RawLake:
        """The raw trades of `exchange`; records the grid if the lake has none.

        Args:
            exchange: name of the exchange, as in `coinbase`.
            cell_pages: pages of 1,000 ids per cell, for a new lake. A recorded grid wins.

        Raises:
            GridDamaged: if the recorded grid cannot be read.
            StoreError: if the store fails.
        """
        return RawLake(self.store, exchange, load_or_create_grid(self.store, exchange, cell_pages))

    def exchanges(self) -> list[str]:
        """The exchanges whose raw trades the lake has a folder for, sorted."""
        named = (folder.partition("=") for folder in self.store.folders(f"{RAW_ROOT}/"))
        return [name for column, _, name in named if column == "exchange" and is_exchange(name)]

    def raw_for_reading(self, exchange: str) -> RawLake:
        """The raw trades of `exchange`; writes nothing, also if the lake records no grid.

        Raises:
            GridDamaged: if the recorded grid cannot be read.
            StoreError: if the store fails.
        """
        return RawLake(self.store, exchange, recorded_grid(self.store, exchange) or Grid())


def open_lake(
    location: str | Path, *, s3: S3Settings | None = None, stop: StopEvent = STOP
) -> Lake:
    """The lake at `location`, after a try at listing, writing and removing in it.

    Args:
        location: a folder (made if missing), or `s3://bucket/prefix`.
        s3: how to reach S3; boto3's own configuration if left out.
        stop: ends waits between attempts when it is set.

    Raises:
        LakeUnusable: if the location has an unknown form, is a file, is full or read-only, the
            bucket is missing, a permission is, or there is no answer: before any work was spent.
    """
    location = str(location)
    store = make_store(location, s3=s3, stop=stop)
    try:
        store.check()
    except StoreError as error:
        raise LakeUnusable(location, error.message, hint=error.hint) from error
    return Lake(store)


def look_into(store: Store) -> Lake:
    """The lake in `store`, for reading: nothing is tried, written or made.

    Raises:
        LakeUnusable: if it holds no trades.
        StoreError: if the store fails.
    """
    if not any(store.folders(root) for root in (f"{RAW_ROOT}/", "unified/")):
        raise LakeUnusable(store.location, "it holds no trades", hint="Look at --lake")
    return Lake(store)


def make_store(location: str, *, s3: S3Settings | None = None, stop: StopEvent = STOP) -> Store:
    """The store at `location`, unchecked.

    Raises:
        LakeUnusable: if the location or the settings have a form that cannot work.
    """
    bucket, prefix = _parsed(location)
    return _s3(location, bucket, prefix, s3, stop) if bucket else LocalStore(location)


def canonical_location(location: str) -> str:
    """What the store at `location` calls itself, found without opening it.

    Raises:
        LakeUnusable: if the location has a form that cannot work.
    """
    bucket, prefix = _parsed(location)
    return s3_location(bucket, prefix) if bucket else LocalStore(location).location


def _parsed(location: str) -> tuple[str, str]:
    """Bucket and prefix; no bucket for a folder."""
    scheme = _SCHEME.match(location)
    if scheme is None:
        if not location.strip() or "\0" in location:
            raise LakeUnusable(location, "no path", hint="Name a folder, as in data/lake")
        return "", ""
    if scheme[1] != "s3":
        raise LakeUnusable(
            location, f"{scheme[1]}:// is not supported", hint="Use a folder or s3://bucket/prefix"
        )
    parts = bucket_and_prefix(location)
    if parts is None:
        raise LakeUnusable(location, "not a bucket and prefix", hint=S3_FORM)
    return parts


def _s3(
    location: str, bucket: str, prefix: str, settings: S3Settings | None, stop: StopEvent
) -> Store:
    # boto3 takes half a second to import, which a local lake need not pay.
    from headrace.lake.s3 import S3Store

    reached = settings or s3_from_environment()
    try:
        return S3Store(bucket, prefix, reached, stop=stop)
    except ConfigurationError as error:
        raise LakeUnusable(location, error.message, hint=error.hint) from error
