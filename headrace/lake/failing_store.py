"""A store that fails on demand: the seam through which tests, and users, rehearse failures.

    store = FaultyStore(LocalStore(folder))
    store.script("put_if_absent", Fault(unavailable, times=3))        # three refusals, then fine
    store.script("put_if_absent", Fault(unavailable, stored=True))    # done, but the answer is lost
    store.script("get", Fault(denied, times=None, key="part-"))       # always, for such keys

`headrace.kill_points` kills the process at named points; this makes a running one meet failures.
"""

from __future__ import annotations

import threading
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, replace
from typing import Literal, TypeVar

from headrace.lake.exceptions import StoreDenied, StoreError, StoreFull, StoreUnavailable
from headrace.lake.store import Guard, Store, StoredObject, unguarded

Action = Literal[
    "put", "put_if_absent", "get", "tail", "span", "exists", "entries", "listings", "delete"
]
T = TypeVar("T")


def unavailable(action: str, place: str) -> StoreError:
    """The store was asked until its limit and never answered."""
    return StoreUnavailable(action, place, "scripted outage", attempts=1, elapsed_s=0.0)


def denied(action: str, place: str) -> StoreError:
    """The store refuses for good."""
    return StoreDenied(action, place, "scripted refusal")


def full(action: str, place: str) -> StoreError:
    """The store has no space."""
    return StoreFull(action, place, "scripted lack of space")


@dataclass(frozen=True, slots=True)
class Fault:
    """What goes wrong, for which calls.

    Args:
        error: makes the error from the action and the place.
        times: for how many matching calls; None for all.
        key: only for keys that contain this.
        stored: the call takes effect before it fails.
    """

    error: Callable[[str, str], StoreError] = unavailable
    times: int | None = 1
    key: str = ""
    stored: bool = False


class FaultyStore:
    """`inner`, with scripted failures and a record of the calls.

    Args:
        inner: the store that does the work.
    """

    def __init__(self, inner: Store) -> None:
        self._inner = inner
        self._scripts: dict[Action, list[Fault]] = defaultdict(list)
        self._lock = threading.Lock()
        self.calls: list[tuple[Action, str]] = []

    def script(self, action: Action, fault: Fault) -> None:
        """Add `fault` to what `action` will meet, after the faults scripted before it."""
        with self._lock:
            self._scripts[action].append(fault)

    def heal(self) -> None:
        """Forget every scripted fault that is left."""
        with self._lock:
            self._scripts.clear()

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
        self._meet("put", key, lambda: self._inner.put(key, content, guard=guard))

    def put_if_absent(self, key: str, content: bytes, *, guard: Guard = unguarded) -> bool:
        """See `Store.put_if_absent`."""
        return self._meet(
            "put_if_absent", key, lambda: self._inner.put_if_absent(key, content, guard=guard)
        )

    def get(self, key: str) -> bytes:
        """See `Store.get`."""
        return self._meet("get", key, lambda: self._inner.get(key))

    def tail(self, key: str, size_bytes: int) -> bytes:
        """See `Store.tail`."""
        return self._meet("tail", key, lambda: self._inner.tail(key, size_bytes))

    def span(self, key: str, start: int, size_bytes: int) -> bytes:
        """See `Store.span`."""
        return self._meet("span", key, lambda: self._inner.span(key, start, size_bytes))

    def exists(self, key: str) -> bool:
        """See `Store.exists`."""
        return self._meet("exists", key, lambda: self._inner.exists(key))

    def entries(self, prefix: str) -> Iterator[StoredObject]:
        """See `Store.entries`."""
        return self._meet("entries", prefix, lambda: self._inner.entries(prefix))

    def listings(self, prefixes: Iterable[str]) -> Iterator[dict[str, list[StoredObject]]]:
        """See `Store.listings`."""
        return self._meet("listings", "", lambda: self._inner.listings(prefixes))

    def folders(self, prefix: str) -> list[str]:
        """See `Store.folders`; never fails by itself."""
        return self._inner.folders(prefix)

    def delete(self, key: str, *, guard: Guard = unguarded) -> None:
        """See `Store.delete`."""
        self._meet("delete", key, lambda: self._inner.delete(key, guard=guard))

    def sweep(self, prefix: str) -> list[str]:
        """See `Store.sweep`; never fails by itself."""
        return self._inner.sweep(prefix)

    def check(self) -> None:
        """See `Store.check`; never fails by itself."""
        self._inner.check()

    def _meet(self, action: Action, key: str, call: Callable[[], T]) -> T:
        fault = self._next_fault(action, key)
        if fault is None:
            return call()
        if fault.stored:
            call()
        raise fault.error(action, self.place(key))

    def _next_fault(self, action: Action, key: str) -> Fault | None:
        with self._lock:
            self.calls.append((action, key))
            script = self._scripts[action]
            for at, fault in enumerate(script):
                if fault.key in key:
                    self._use_up(script, at)
                    return fault
        return None

    @staticmethod
    def _use_up(script: list[Fault], at: int) -> None:
        fault = script[at]
        if fault.times is None:
            return
        if fault.times > 1:
            script[at] = replace(fault, times=fault.times - 1)
        else:
            del script[at]
