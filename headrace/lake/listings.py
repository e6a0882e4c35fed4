"""Products of a lake as one listing showed them, and the listings of many products read together.

A run asks a dozen things of a product before it knows whether there is anything to do. Each is
answered from names, and from the newest part: so one listing and one object are read for them all.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterable

import pyarrow.parquet as pq

from headrace.lake.encoding import PartFooter
from headrace.lake.exceptions import ObjectMissing
from headrace.lake.names import canonical_product
from headrace.lake.parts import Part, PartListing
from headrace.lake.raw import RawLake

#: How old a listing may be that was read in advance, in seconds.
FRESH_S = 10.0


class ListedLake(RawLake):
    """A lake in which one product is as a listing showed it.

    The listing is believed until a part of it is found missing: then it was merged away since, and
    every question is answered by a listing of its own again. The newest part is read whole, once.

    Args:
        lake: where everything else is read.
        product: whose listing it is.
        listing: its parts.
    """

    def __init__(self, lake: RawLake, product: str, listing: PartListing) -> None:
        super().__init__(lake.store, lake.exchange, lake.grid, readers=lake.readers)
        self._product = canonical_product(product)
        self._listing: PartListing | None = listing
        self._newest = listing.parts[-1] if listing.parts else None
        self._newest_content: bytes | None = None
        self._newest_described: tuple[PartFooter, pq.FileMetaData] | None = None

    def parts(self, product: str) -> PartListing:
        """As `RawLake.parts`, without a listing of its own while the one at hand is believed."""
        if self._listing is None or canonical_product(product) != self._product:
            return super().parts(product)
        return self._listing

    def described(self, part: Part) -> tuple[PartFooter, pq.FileMetaData]:
        """As `RawLake.described`."""
        if part != self._newest:
            return super().described(part)
        if self._newest_described is None:
            self._newest_described = super().described(part)
        return self._newest_described

    def _content(self, part: Part) -> bytes:
        if part == self._newest:
            return self._whole_newest(part)
        return self._read(part, super()._content)

    def _tail(self, part: Part, size_bytes: int) -> bytes:
        if part == self._newest:
            return self._whole_newest(part)[-size_bytes:]
        return self._read(part, lambda part: super(ListedLake, self)._tail(part, size_bytes))

    def _whole_newest(self, part: Part) -> bytes:
        content = self._newest_content
        if content is None:
            content = self._newest_content = self._read(part, super()._content)
        return content

    def _read(self, part: Part, read: Callable[[Part], bytes]) -> bytes:
        try:
            return read(part)
        except ObjectMissing:
            self._listing = None
            raise


class Listings:
    """The listings of a run's products, many of them by one request where the store can do that.

    What is read in advance is at most `FRESH_S` old when it is used, and used once: it says whether
    there is anything to do. Who changes something lists for itself, under its lease.

    Args:
        lake: what is listed.
        products: in the order in which they will be asked for.
        clock: seconds that only rise.
    """

    def __init__(
        self, lake: RawLake, products: Iterable[str], *, clock: Callable[[], float] = time.monotonic
    ) -> None:
        self._lake = lake
        self._clock = clock
        self._later = dict.fromkeys(products)
        self._read: dict[str, tuple[float, PartListing]] = {}
        self._reading = threading.Lock()

    def listed(self, product: str) -> ListedLake:
        """The lake with the product as it was listed just now, or some seconds ago.

        Raises:
            StoreError: if the store fails.
        """
        with self._reading:
            self._later.pop(product, None)
            found = self._read.pop(product, None)
            if found is None or self._clock() - found[0] > FRESH_S:
                found = self._read_ahead(product)
        return ListedLake(self._lake, product, found[1])

    def _read_ahead(self, product: str) -> tuple[float, PartListing]:
        """List a product, and take those that come with it; the lock is held."""
        began = self._clock()
        self._read = {
            name: found for name, found in self._read.items() if began - found[0] <= FRESH_S
        }
        wanted = [product]
        if self._lake.store.lists_together:
            # Stores list by rising key: what stands before it would have to be read first.
            wanted += [later for later in self._later if later > product]
        for known in self._lake.listings(wanted):
            self._read |= {name: (began, listing) for name, listing in known.items()}
            if product in self._read:
                break
        return self._read.pop(product)
