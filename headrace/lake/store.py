"""What the lake needs of a place that keeps objects: whole writes, conditional writes, listings.

A key is a relative path with forward slashes, built by `headrace.lake.names` and never by a value
from outside. Every backend answers the same way; one contract suite runs over all of them.

`GuardedStore` asks, right before every change, whether its user may still make it. A run that was
stopped (SIGSTOP, a suspended machine) for longer than its lease lasts wakes in the middle of
whatever it was about to do, and another run has taken over. Nothing it does may take effect then:
no object gets a name, none is replaced, none is removed. The guard is asked by the store itself,
after everything that takes time: on a disk between the sync and the rename, at S3 before each
attempt of a request. docs/adr/0004 says what remains, and what becomes of it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from typing import Protocol

from headrace.lake.names import exchange_prefix, product_of_folder

#: Called right before an object gets, changes or loses its name; raises if that may not happen any
#: more, and then it does not.
Guard = Callable[[], None]


def unguarded() -> None:
    """The guard of a change that is always allowed."""


@dataclass(frozen=True, slots=True)
class StoredObject:
    """One object of a listing.

    Args:
        key: within the store.
        size_bytes: of the object.
        changed_us: when it got its name or its content, in microseconds since 1970 by the store's
            clock, as finely as that counts; 0 where the store does not say.
    """

    key: str
    size_bytes: int
    changed_us: int = 0


class Store(Protocol):
    """Objects under keys. A reader never sees an object before all of it is durable.

    Every method raises `StoreUnavailable` when transient failures outlast the store's limit, and a
    `PermanentStoreError` (denied, full, unusable) at once; both name the action and the place.
    """

    @property
    def location(self) -> str:
        """The root, as a person would write it: a path, or s3://bucket/prefix."""

    @property
    def lists_together(self) -> bool:
        """Whether a request of `listings` can answer for more than one prefix."""
        ...

    def place(self, key: str) -> str:
        """The full path or URL of `key`, for messages."""

    def put(self, key: str, content: bytes, *, guard: Guard = unguarded) -> None:
        """Store `content` under `key` as a whole, in the place of what is there."""

    def put_if_absent(self, key: str, content: bytes, *, guard: Guard = unguarded) -> bool:
        """Store `content` unless the key is taken: True if it was stored by this call."""

    def get(self, key: str) -> bytes:
        """The whole object.

        Raises:
            ObjectMissing: if there is none.
        """

    def tail(self, key: str, size_bytes: int) -> bytes:
        """The last `size_bytes` of the object, or all of it if it is shorter.

        Raises:
            ObjectMissing: if there is none.
        """

    def span(self, key: str, start: int, size_bytes: int) -> bytes:
        """`size_bytes` (1 or more) of the object from byte `start` on, which is within it.

        Less where the object ends before.

        Raises:
            ObjectMissing: if there is none.
        """

    def exists(self, key: str) -> bool:
        """Whether there is an object, only if the store says so; a refusal is `StoreDenied`."""

    def entries(self, prefix: str) -> Iterator[StoredObject]:
        """The objects directly under `prefix` (which ends with a slash), in no set order."""

    def listings(self, prefixes: Iterable[str]) -> Iterator[dict[str, list[StoredObject]]]:
        """The `entries` of many prefixes with few requests: all that each request completes.

        The lowest prefix comes first. For a look ahead: a store that does not list its keys in
        rising order may leave some out.
        """

    def folders(self, prefix: str) -> list[str]:
        """The names of the folders directly under `prefix`, sorted."""

    def delete(self, key: str, *, guard: Guard = unguarded) -> None:
        """Remove the object; one that is not there is no error."""

    def sweep(self, prefix: str) -> list[str]:
        """Remove what killed writers left under `prefix`; the names that were removed."""

    def check(self) -> None:
        """List, write and remove a small object, to find out now what would fail later."""


#: The object that `Store.check` writes and removes.
PROBE_KEY = "_headrace_probe"


class GuardedStore:
    """`Store` over `inner`, whose changes need the leave of `guard`.

    Args:
        inner: the store that does the work.
        guard: raises when nothing may be changed any more.
    """

    def __init__(self, inner: Store, guard: Guard) -> None:
        self._inner = inner
        self._guard = guard

    @property
    def location(self) -> str:
        """See `Store.location`."""
        return self._inner.location

    @property
    def lists_together(self) -> bool:
        """See `Store.lists_together`."""
        return self._inner.lists_together

    def place(self, key: str) -> str:
        """See `Store.place`."""
        return self._inner.place(key)

    def put(self, key: str, content: bytes, *, guard: Guard = unguarded) -> None:
        """See `Store.put`."""
        self._inner.put(key, content, guard=self._both(guard))

    def put_if_absent(self, key: str, content: bytes, *, guard: Guard = unguarded) -> bool:
        """See `Store.put_if_absent`."""
        return self._inner.put_if_absent(key, content, guard=self._both(guard))

    def get(self, key: str) -> bytes:
        """See `Store.get`."""
        return self._inner.get(key)

    def tail(self, key: str, size_bytes: int) -> bytes:
        """See `Store.tail`."""
        return self._inner.tail(key, size_bytes)

    def span(self, key: str, start: int, size_bytes: int) -> bytes:
        """See `Store.span`."""
        return self._inner.span(key, start, size_bytes)

    def exists(self, key: str) -> bool:
        """See `Store.exists`."""
        return self._inner.exists(key)

    def entries(self, prefix: str) -> Iterator[StoredObject]:
        """See `Store.entries`."""
        return self._inner.entries(prefix)

    def listings(self, prefixes: Iterable[str]) -> Iterator[dict[str, list[StoredObject]]]:
        """See `Store.listings`."""
        return self._inner.listings(prefixes)

    def folders(self, prefix: str) -> list[str]:
        """See `Store.folders`."""
        return self._inner.folders(prefix)

    def delete(self, key: str, *, guard: Guard = unguarded) -> None:
        """See `Store.delete`."""
        self._inner.delete(key, guard=self._both(guard))

    def sweep(self, prefix: str) -> list[str]:
        """See `Store.sweep`; what a running writer has open is left alone, so it needs no guard."""
        return self._inner.sweep(prefix)

    def check(self) -> None:
        """See `Store.check`."""
        self._inner.check()

    def _both(self, other: Guard) -> Guard:
        def both() -> None:
            self._guard()
            other()

        return both


def stored_products(store: Store, exchange: str) -> list[str]:
    """The products of an exchange that a store has a folder for, sorted."""
    folders = store.folders(exchange_prefix(exchange))
    return [product for folder in folders if (product := product_of_folder(folder))]
