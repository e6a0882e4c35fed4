"""From a location as a person writes it to a lake that is known to work."""

from __future__ import annotations

from headrace.lake.exceptions import LakeUnusable, StoreError
from headrace.lake.grid import DEFAULT_CELL_PAGES, load_or_create_grid
from headrace.lake.local import LocalStore
from headrace.lake.raw import RawLake
from headrace.lake.store import Store


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


def open_lake(location: str) -> Lake:
    """The lake at `location`, after a try at listing, writing and removing in it.

    Args:
        location: a folder (made if missing), or `s3://bucket/prefix`.

    Raises:
        LakeUnusable: if the location has an unknown form, is a file, is full or read-only, the
            bucket is missing, or a permission is: before any work was spent.
    """
    store = LocalStore(location)
    try:
        store.check()
    except StoreError as error:
        raise LakeUnusable(location, str(error), hint=error.hint) from error
    return Lake(store)
