"""The list of products as a file of the lake: every machine that works on the lake reads the same.

Reading takes no lock: the file is replaced as a whole. Who changes it holds a lease meanwhile.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from uuid import uuid4

import msgspec
from tenacity import Retrying, retry_if_exception_type, stop_after_delay, wait_random

from headrace.errors import ConfigurationError, PlaceError, StateError
from headrace.exchange.exceptions import UnknownProduct
from headrace.lake.exceptions import ObjectMissing, StoreError
from headrace.lake.names import OWN_ROOT, canonical_exchange, location_digest
from headrace.lake.store import Store, stored_products
from headrace.leases import LeaseHeld, LeaseStore, hold
from headrace.products.listing import LIST_VERSION, ProductList, some

#: A change takes milliseconds; how long another one is waited for.
_PATIENCE_S = 10.0


class ListDamaged(PlaceError, StateError):
    """The kept list cannot be read; it was left as it is."""

    said = "{where} does not hold a list of products: {reason}"
    way_out = (
        "Restore it, or remove it and run headrace products sync: what users added to it and the "
        "named sets are then gone"
    )


class UnknownListed(ConfigurationError):
    """Products that the list does not have."""

    def __init__(self, products: Sequence[str], location: str) -> None:
        super().__init__(
            f"the list of products of the lake {location} does not have {some(products)}",
            hint="headrace products list shows it; headrace products add puts a product on it",
        )
        self.products = tuple(products)


def list_key(exchange: str) -> str:
    """Where the list of an exchange's products is in the lake."""
    return f"{OWN_ROOT}/products-{canonical_exchange(exchange)}.json"


def kept_list(store: Store, exchange: str) -> ProductList:
    """The list; an empty one if the lake keeps none.

    Raises:
        ListDamaged: it cannot be read, or a newer version wrote it.
        StoreError: the store failed.
    """
    key = list_key(exchange)
    try:
        content = store.get(key)
    except ObjectMissing:
        return ProductList()
    return _parsed(content, store.place(key))


def change_list(
    store: Store, exchange: str, leases: LeaseStore, change: Callable[[ProductList], ProductList]
) -> ProductList:
    """Replace the list by what `change` makes of it; return the new one.

    Raises:
        LeaseHeld: another process kept changing it.
        ListDamaged: it cannot be read; it is left as it is.
        StoreError: the store failed.
    """
    attempts = Retrying(
        retry=retry_if_exception_type(LeaseHeld),
        stop=stop_after_delay(_PATIENCE_S),
        wait=wait_random(0.05, 0.25),
        reraise=True,
    )
    return attempts(_changed, store, exchange, leases, change)


def _changed(
    store: Store, exchange: str, leases: LeaseStore, change: Callable[[ProductList], ProductList]
) -> ProductList:
    name = f"{canonical_exchange(exchange)}/products@{location_digest(store.location)}"
    with hold(leases, name, run_id=f"products-{uuid4().hex[:12]}") as lease:
        before = kept_list(store, exchange)
        after = change(before)
        if after != before:
            content = msgspec.json.format(msgspec.json.encode(after), indent=1)
            store.put(list_key(exchange), content + b"\n", guard=lease.check_time)
    return after


class _Version(msgspec.Struct):
    schema_version: int


#: Made here: two threads that meet a type for the first time at once crash in msgspec.
_VERSION = msgspec.json.Decoder(_Version)
_LIST = msgspec.json.Decoder(ProductList)


def _parsed(content: bytes, place: str) -> ProductList:
    try:
        version = _VERSION.decode(content).schema_version
        if version > LIST_VERSION:
            raise ListDamaged(
                place,
                f"it has schema version {version}; this version reads up to {LIST_VERSION}",
                hint="Upgrade headrace",
            )
        return _LIST.decode(content)
    except msgspec.MsgspecError as error:
        raise ListDamaged(place, str(error)) from error


def with_closest(error: UnknownProduct, store: Store, exchange: str) -> str:
    """The text of `error`, with the product of the list or of the lake that was probably meant."""
    from difflib import get_close_matches

    try:
        known = {*kept_list(store, exchange).ids(), *stored_products(store, exchange)}
    except (ListDamaged, StoreError):
        known = set()
    close = get_close_matches(error.product, sorted(known - {error.product}), n=1, cutoff=0.7)
    return f"{error.message}. Did you mean {close[0]}? {error.hint}" if close else str(error)
