"""How many bytes of trades a run holds at once, over all its products.

A chunk reserves what its pages will take before it asks for the first of them, a merge what it will
read, both in the order in which they come. Who waits holds nothing, and what alone is larger than
the limit goes when nothing else is held: so none waits for ever. A chunk whose pages are larger
than expected takes more while there is room; where there is none, it stores what it has and goes on
with the rest.
"""

from __future__ import annotations

import ctypes
import threading
from collections import deque
from collections.abc import Iterator
from contextlib import contextmanager

from headrace.exchange.pages import Page
from headrace.lake.grid import PAGE_IDS
from headrace.stopping import StopEvent

#: What chunks and merges may hold together. The imports take 140 MB more (docs/benchmarks.md).
LIMIT_BYTES = 40 << 20

#: A page of 1,000 realistic trades as rows.
PAGE_BYTES = 50_000

#: Digest and Parquet writer take half of what the rows do, on top of them.
_ENCODING = 1.5
#: The text of an answer that waits until it is read takes two pages of rows.
_ANSWER_PAGES = 2
#: A merge holds its pieces, and a column of them or the writer's buffers once more.
_MERGING = 2.0

#: After so many bytes that were reserved are free again, the C library gives back what it keeps.
_TRIM_BYTES = 32 << 20

_TICK_S = 0.5


class MemoryBudget:
    """Bytes that may be held at once. Safe to use from many threads.

    Args:
        limit_bytes: how many.
    """

    def __init__(self, limit_bytes: int = LIMIT_BYTES) -> None:
        self.limit_bytes = limit_bytes
        self._held = 0
        self._released = 0
        self._waiting: deque[Reservation] = deque()
        self._lock = threading.Lock()

    def pages_at_once(self, page_bytes: int) -> int:
        """How many pages of so many bytes the chunks in flight may hold together, 1 or more."""
        return max(1, int(self.limit_bytes / (_ENCODING * page_bytes)))

    @contextmanager
    def reserved(self, size_bytes: int, stop: StopEvent) -> Iterator[Reservation]:
        """Hold so many bytes for a `with` block, once it is this caller's turn and they are free.

        What is larger than the limit is cut to it.

        Raises:
            Stopped: the stop event was set while it waited.
        """
        reservation = Reservation(self, min(size_bytes, self.limit_bytes))
        with self._lock:
            self._waiting.append(reservation)
            self._admit()
        try:
            while not reservation.admitted.wait(_TICK_S):
                stop.check()
            yield reservation
        finally:
            if self._release(reservation):
                _trim()

    def _release(self, reservation: Reservation) -> bool:
        """Whether enough is free again to be given back."""
        with self._lock:
            if reservation.admitted.is_set():
                self._held -= reservation.size_bytes
                self._released += reservation.size_bytes
            else:
                self._waiting.remove(reservation)
            self._admit()
            enough = self._released >= _TRIM_BYTES
            if enough:
                self._released = 0
            return enough

    def _admit(self) -> None:
        """Admit those whose turn it is, as far as there is room. The lock is held."""
        while self._waiting and self._fits(self._waiting[0].size_bytes):
            admitted = self._waiting.popleft()
            self._held += admitted.size_bytes
            admitted.admitted.set()

    def _fits(self, size_bytes: int) -> bool:
        return not self._held or self._held + size_bytes <= self.limit_bytes

    def _extend(self, reservation: Reservation, size_bytes: int) -> bool:
        with self._lock:
            more = size_bytes - reservation.size_bytes
            if more > 0:
                if self._held + more > self.limit_bytes:
                    return False
                self._held += more
                reservation.size_bytes = size_bytes
            return True


class Reservation:
    """What one chunk or merge holds. Made by `MemoryBudget.reserved`.

    Attributes:
        size_bytes: how much.
        admitted: set once it is held.
    """

    def __init__(self, budget: MemoryBudget, size_bytes: int) -> None:
        self.size_bytes = size_bytes
        self.admitted = threading.Event()
        self._budget = budget

    def covers(self, size_bytes: int) -> bool:
        """Whether so many bytes may be held; takes what is missing if there is room for it."""
        return self._budget._extend(self, size_bytes)


def page_bytes(seen: Page) -> int:
    """What 1,000 rows take that are like those of a page that was seen."""
    return int(seen.trades.nbytes) * PAGE_IDS // max(1, len(seen))


def chunk_bytes(rows_bytes: int, page_bytes: int) -> int:
    """What a chunk takes that holds rows of so many bytes and waits for one more page."""
    return int(_ENCODING * rows_bytes) + _ANSWER_PAGES * page_bytes


def merge_bytes(rows_bytes: int) -> int:
    """What merging pieces takes whose rows have so many bytes."""
    return int(_MERGING * rows_bytes)


def _trim() -> None:
    """Have the C library give back to the kernel what is free between what is in use (glibc)."""
    if _malloc_trim is not None:
        _malloc_trim(0)


_malloc_trim = getattr(ctypes.CDLL(None), "malloc_trim", None)
