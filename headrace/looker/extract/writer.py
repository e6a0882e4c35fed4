"""The one writer of an extraction: what came waits in a bounded queue and is stored in groups.

Threads that fetch put batches in and go on; when the queue is full they wait. Bytes bound the
memory, batches what a kill costs: an answer that is not stored yet is asked for again. A batch is
stored whole, in one transaction with others that wait as well. Its ticket is done once it is in the
vault.
"""

from __future__ import annotations

import logging
import threading
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Future
from dataclasses import dataclass, field

from headrace.errors import HeadraceError
from headrace.looker.vault import Failed, Item, Page, UpsertCounts, Vault

_log = logging.getLogger(__name__)

#: Bodies that may wait, in bytes; one batch more goes in whatever its size.
MOST_BYTES = 32 << 20
#: Batches that may wait or be in a transaction, for each worker of the extraction.
BATCHES_PER_WORKER = 2
#: Bodies of one transaction, and items.
GROUP_BYTES = 8 << 20
GROUP_ITEMS = 800
_LOOK_S = 0.2


@dataclass(frozen=True, slots=True)
class Batch:
    """What came together and is stored together; see `Vault.upsert_many`."""

    type: str
    items: Sequence[Item] = ()
    pages: Sequence[Page] = ()
    failures: Sequence[Failed] = ()
    seen: Sequence[str] = ()
    todo: Sequence[str] = ()

    @property
    def size_bytes(self) -> int:
        """Length of the bodies."""
        return sum(len(item.body) for item in self.items)


Ticket = Future[UpsertCounts]


@dataclass
class _Tally:
    by_type: dict[str, UpsertCounts] = field(default_factory=dict)

    def add(self, type_: str, done: UpsertCounts) -> None:
        self.by_type[type_] = self.by_type.get(type_, UpsertCounts()) + done


class Writer:
    """Stores batches on a thread of its own, for the time of a `with` block.

    Args:
        vault, session: where everything goes.
        may_write: raises if writing is no longer ours; asked before each transaction.
        most_batches: that are not stored yet.
        most_bytes: of bodies that wait.

    Raises:
        HeadraceError: on leaving the block, what made storing impossible.
    """

    def __init__(
        self,
        vault: Vault,
        session: int,
        *,
        may_write: Callable[[], object],
        most_batches: int = 8 * BATCHES_PER_WORKER,
        most_bytes: int = MOST_BYTES,
    ) -> None:
        self._vault = vault
        self._session = session
        self._may_write = may_write
        self._most_batches = most_batches
        self._most_bytes = most_bytes
        self._waiting: deque[tuple[Batch, int, Ticket]] = deque()
        self._bytes = self._batches = 0
        self._changed = threading.Condition()
        self._closing = False
        self._failure: BaseException | None = None
        self._tally = _Tally()
        self._thread = threading.Thread(target=self._run, name="headrace-vault-writer", daemon=True)

    def __enter__(self) -> Writer:
        self._thread.start()
        return self

    def __exit__(self, kind: type[BaseException] | None, *_rest: object) -> None:
        with self._changed:
            self._closing = True
            self._changed.notify_all()
        self._thread.join()
        if self._failure is not None and kind is None:
            raise self._failure

    @property
    def failure(self) -> BaseException | None:
        """What made storing impossible, if anything did."""
        return self._failure

    def put(self, batch: Batch) -> Ticket:
        """Have a batch stored; waits while too much waits already.

        A stop does not end that wait: what came is stored, and storing makes room.

        Raises:
            HeadraceError: storing has become impossible.
        """
        size_bytes = batch.size_bytes
        ticket: Ticket = Future()
        with self._changed:
            while self._is_full(size_bytes):
                self._refuse_if_failed()
                self._changed.wait(_LOOK_S)
            self._refuse_if_failed()
            self._waiting.append((batch, size_bytes, ticket))
            self._bytes += size_bytes
            self._batches += 1
            self._changed.notify_all()
        return ticket

    def tally(self, type_: str) -> UpsertCounts:
        """What became of the items of a type so far."""
        with self._changed:
            return self._tally.by_type.get(type_, UpsertCounts())

    def _is_full(self, size_bytes: int) -> bool:
        too_large = self._waiting and self._bytes + size_bytes > self._most_bytes
        return bool(too_large) or self._batches >= self._most_batches

    def _refuse_if_failed(self) -> None:
        if self._failure is not None:
            raise self._failure

    def _run(self) -> None:
        while True:
            with self._changed:
                while not self._waiting and not self._closing:
                    self._changed.wait(_LOOK_S)
                group = self._group()
            if not group:
                return
            self._store(group)

    def _group(self) -> list[tuple[Batch, int, Ticket]]:
        """Take from the queue what goes into one transaction; the lock is held."""
        group: list[tuple[Batch, int, Ticket]] = []
        size_bytes = items = 0
        while self._waiting and size_bytes < GROUP_BYTES and items < GROUP_ITEMS:
            entry = self._waiting.popleft()
            group.append(entry)
            size_bytes += entry[1]
            items += len(entry[0].items)
        return group

    def _store(self, group: list[tuple[Batch, int, Ticket]]) -> None:
        try:
            if self._failure is not None:
                raise self._failure
            self._may_write()
            results = self._stored(group)
        except BaseException as error:  # noqa: BLE001 - raised to all who wait, and on leaving
            with self._changed:
                self._failure = self._failure or error
            if not isinstance(error, HeadraceError):
                _log.exception("the vault's writer broke")
            for _batch, _size, ticket in group:
                ticket.set_exception(error)
        else:
            with self._changed:
                for type_, done in results.items():
                    self._tally.add(type_, done)
            for batch, _size, ticket in group:
                ticket.set_result(results.get(batch.type, UpsertCounts()))
        finally:
            with self._changed:
                self._bytes -= sum(size for _batch, size, _ticket in group)
                self._batches -= len(group)
                self._changed.notify_all()

    def _stored(self, group: list[tuple[Batch, int, Ticket]]) -> Mapping[str, UpsertCounts]:
        """One transaction per type in the group, so that what became of each is known."""
        by_type: dict[str, list[Batch]] = {}
        for batch, _size, _ticket in group:
            by_type.setdefault(batch.type, []).append(batch)
        return {
            type_: self._vault.upsert_many(
                self._session,
                [item for batch in batches for item in batch.items],
                pages=[page for batch in batches for page in batch.pages],
                failures=[failed for batch in batches for failed in batch.failures],
                seen={type_: [i for batch in batches for i in batch.seen]},
                todo={type_: [i for batch in batches for i in batch.todo]},
            )
            for type_, batches in by_type.items()
        }
