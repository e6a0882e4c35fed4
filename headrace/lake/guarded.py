"""A store that asks, right before every change, whether its user may still make it.

A run that was stopped (SIGSTOP, a suspended machine) for longer than its lease lasts wakes in the
middle of whatever it was about to do, and another run has taken over. Nothing it does may take
effect then: no object gets a name, none is replaced, none is removed. The guard is asked by the
store itself, after everything that takes time: on a disk between the sync and the rename, at S3
before each attempt of a request. docs/adr/0004 says what remains, and what becomes of it.
"""

from __future__ import annotations

from collections.abc import Iterator

from headrace.lake.store import Guard, Store, StoredObject, unguarded


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

    def exists(self, key: str) -> bool:
        """See `Store.exists`."""
        return self._inner.exists(key)

    def entries(self, prefix: str) -> Iterator[StoredObject]:
        """See `Store.entries`."""
        return self._inner.entries(prefix)

    def folders(self, prefix: str) -> list[str]:
        """See `Store.folders`."""
        return self._inner.folders(prefix)

    def delete(self, key: str, *, guard: Guard = unguarded) -> None:
        """See `Store.delete`."""
        self._inner.delete(key, guard=self._both(guard))

    def sweep(self, prefix: str) -> list[str]:
        """See `Store.sweep`; what a living writer has open is left alone, so it needs no guard."""
        return self._inner.sweep(prefix)

    def check(self) -> None:
        """See `Store.check`."""
        self._inner.check()

    def _both(self, other: Guard) -> Guard:
        def both() -> None:
            self._guard()
            other()

        return both
