"""A quota on a server, as one process works on it: transactions on a copy, in one order for all.

A transaction is worked out on the copy and offered as a change. If others were quicker, it is
undone, theirs are taken over, and it is worked out again: one round trip where no other process
wrote meanwhile, mostly two where one did. What only reads is offered as nothing, and learns in the
same way whether it read the newest.
"""

from __future__ import annotations

import logging
import random
import secrets
import sqlite3
import threading
import time
from collections.abc import Callable
from typing import Concatenate, NamedTuple, ParamSpec, TypeVar

from headrace.quota.clock import MS, NS
from headrace.quota.exceptions import QuotaOutage
from headrace.quota.shared.clock import ServerClock
from headrace.quota.shared.replica import Replica
from headrace.quota.shared.server import GONE, KEPT, Keeper, Position
from headrace.quota.storage import Found

log = logging.getLogger(__name__)

P = ParamSpec("P")
T = TypeVar("T")

#: The content is kept again after so many changes, or a power of two as many.
_EVERY = KEPT // 2
#: After so many changes of others that came in between, something else is wrong.
_MOST_TRIES = 200
#: Pauses before the third try and later ones are of a random length, up to twice as long each time.
_PAUSE_S, _LONGEST_PAUSE_S = 0.0002, 0.02
#: What changes have taken, at the most, is believed up to this; it is forgotten by an eighth each.
_MOST_TAKEN, _FORGOTTEN = NS // 4, 8
#: What was heard of the server so long ago is taken for new.
_FRESH = 20 * MS
#: The same for what is looked at again before a request leaves.
_LENIENT = NS


class Span(NamedTuple):
    """Within which the tables are what they were: one list, one start of the server, one clock."""

    epoch: str
    boot_id: str
    steps: int


class Ledger:
    """See the module. Safe for many threads.

    Args:
        keeper: the server; this ledger closes it.
        name: of the quota.
        horizon: for so many nanoseconds it matters what was given before.
    """

    def __init__(self, keeper: Keeper, name: str, horizon: int) -> None:
        self.clock: ServerClock = keeper.clock
        self._keeper = keeper
        self._name = name
        self._horizon = horizon
        self._mutex = threading.RLock()
        self._parts: list[LedgerPart] = []
        self._replica: Replica | None = None
        self._position = Position(name, "", 0)
        self._unsure = self._recent = False
        self._connections = 0
        self._heard = -_LENIENT
        #: How long a change has taken lately, others' that came in between included.
        self.takes = 0

    # -- parts ----------------------------------------------------------------------------------

    def attach(self, found: Found) -> LedgerPart:
        """What `StateFile` is to a file; the tables are there already.

        Args:
            found: called in a transaction when the tables are first seen, and again when they are
                others; with whether permits may have been given that they do not know of.

        Raises:
            QuotaOutage, ConfigurationError: as a `Keeper` does.
        """
        part = LedgerPart(self, found)
        with self._mutex:
            self._parts.append(part)
            try:
                self.change(_nothing)
            except BaseException:
                self.detach(part)
                raise
        return part

    def detach(self, part: LedgerPart) -> None:
        """End a part; the connection ends with the last one."""
        with self._mutex:
            self._parts.remove(part)
            if not self._parts:
                self.close()

    def close(self) -> None:
        """Close the connection."""
        with self._mutex:
            self._forget()
            self._keeper.close()

    # -- transactions ---------------------------------------------------------------------------

    def change(
        self, work: Callable[Concatenate[sqlite3.Connection, P], T], *args: P.args, **kw: P.kwargs
    ) -> T:
        """Run `work` as one transaction among those of all processes.

        Raises:
            QuotaOutage: the server does not answer; `work` may have been done.
            ConfigurationError: the server refuses us.
        """
        with self._mutex:
            try:
                return self._settled(lambda connection: work(connection, *args, **kw))
            except QuotaOutage:
                if not self._idled():
                    raise
                # The connection may have ended long ago: that shows when it is used.
                return self._settled(lambda connection: work(connection, *args, **kw))

    def peek(self, work: Callable[[sqlite3.Connection], T], *, lenient: bool) -> T:
        """Run `work`, which only reads, on what was heard a moment ago (a second, if lenient)."""
        with self._mutex:
            recent = time.monotonic_ns() - self._heard <= (_LENIENT if lenient else _FRESH)
            if recent and self._replica is not None:
                return work(self._replica.connection)
            return self.change(work)

    def _idled(self) -> bool:
        return time.monotonic_ns() - self._heard > _LENIENT

    def _settled(self, work: Callable[[sqlite3.Connection], T]) -> T:
        began: int | None = None
        for tries in range(_MOST_TRIES):
            if tries > 1:
                # Others are busy, too: a try that fails costs all of them time.
                time.sleep(random.uniform(0, min(_LONGEST_PAUSE_S, _PAUSE_S * 2**tries)))
            replica = self._ready()
            began = began or self.clock.now()
            done, result = self._tried(replica, work)
            if done:
                assert result is not None
                took = min(self.clock.now() - began, _MOST_TAKEN)
                self.takes = max(took, self.takes - self.takes // _FORGOTTEN)
                return result[0]
        raise QuotaOutage(self._where, f"{_MOST_TRIES} changes of others came in between")

    def _tried(
        self, replica: Replica, work: Callable[[sqlite3.Connection], T]
    ) -> tuple[bool, tuple[T] | None]:
        """Work on the copy and offer the change; whether that was the newest copy, and the result.

        An error of `work` counts only where it was.
        """
        failure: Exception | None = None
        result: tuple[T] | None = None
        change = content = b""
        asked = time.monotonic_ns()
        replica.begin()
        try:
            try:
                result = (work(replica.connection),)
                change = replica.change()
            except Exception as error:  # noqa: BLE001 - it is raised again if the copy was new
                failure = error
            if change and self._content_is_due(replica):
                content = replica.content()
            answer = self._keeper.append(self._position, change, content)
        except BaseException:
            replica.rollback()
            self._forget()
            raise
        self._heard = asked
        if answer.done and failure is None:
            replica.commit()
            if change:
                self._position = self._position._replace(version=self._position.version + 1)
            return True, result
        replica.rollback()
        if answer.done and failure is not None:
            raise failure
        if answer.changes:
            replica.apply(answer.changes)
            version = self._position.version + len(answer.changes)
            self._position = self._position._replace(version=version)
            if not change and failure is None:
                return self._read_again(replica, work)
        elif answer is GONE:
            self._forget()
        return False, None

    def _read_again(
        self, replica: Replica, work: Callable[[sqlite3.Connection], T]
    ) -> tuple[bool, tuple[T] | None]:
        """What only reads is done on a copy that was brought up to what the server has."""
        replica.begin()
        try:
            result = work(replica.connection)
            return not replica.change(), (result,)
        except Exception:  # noqa: BLE001 - it is tried in full, and raised there
            return False, None
        finally:
            replica.rollback()

    # -- the copy -------------------------------------------------------------------------------

    def _ready(self) -> Replica:
        """A copy of the list as it is now, of which all parts have taken possession."""
        connections = self._keeper.connect()
        if self._replica is None or connections != self._connections:
            self._read()
            self._connections = connections
        replica = self._replica
        assert replica is not None
        span = Span(self._position.epoch, self.clock.boot_id, self.clock.steps)
        for part in self._parts:
            if part.found_in == span:
                continue

            def take(connection: sqlite3.Connection, part: LedgerPart = part) -> None:
                part.found(connection, self._was_lost(connection, part.found_in, span))

            done, _ = self._tried(replica, take)
            if not done:
                return self._ready()
            part.found_in = span
        return replica

    def _was_lost(self, connection: sqlite3.Connection, before: Span | None, now: Span) -> bool:
        """Whether permits may have been given that the list does not know of."""
        if before is None:
            untouched = connection.execute("SELECT 1 FROM state").fetchone() is None
            return self._unsure and untouched
        if before.steps != now.steps:
            log.warning("%s: its clock was set; quota %s waits one window", self._where, self._name)
            return True
        if before.epoch != now.epoch and self._recent:
            log.warning("%s has lost quota %s; it waits one window", self._where, self._name)
            return True
        return False

    def _read(self) -> None:
        self._forget()
        history = self._keeper.read(self._name)
        while history is None:
            empty = Replica(self._where)
            content = empty.content()
            empty.close()
            self._keeper.begin(self._name, secrets.token_hex(8), content, self._horizon)
            history = self._keeper.read(self._name)
        self._replica = Replica(self._where, history.content, history.changes)
        self._position = Position(self._name, history.epoch, history.version)
        self._unsure = history.unsure
        self._recent = self.clock.now() - history.made < self._horizon

    def _content_is_due(self, replica: Replica) -> bool:
        """Whether the next change comes with the content: the more rows, the more rarely."""
        version = self._position.version + 1
        if version % _EVERY:
            return False
        return version % (_EVERY << (replica.rows() // (4 * _EVERY)).bit_length()) == 0

    def _forget(self) -> None:
        if self._replica is not None:
            self._replica.close()
            self._replica = None

    @property
    def _where(self) -> str:
        return str(self._keeper)


class LedgerPart:
    """What a book or a breaker sees of a ledger; see `StateFile`.

    Attributes:
        found: takes possession of the tables: of a list just read, or after its server was lost.
        found_in: when that was last done.
    """

    def __init__(self, ledger: Ledger, found: Found) -> None:
        self.found = found
        self.found_in: Span | None = None
        self._ledger = ledger

    @property
    def takes(self) -> int:
        """See `StateStore`."""
        return self._ledger.takes

    def change(
        self, work: Callable[Concatenate[sqlite3.Connection, P], T], *args: P.args, **kw: P.kwargs
    ) -> T:
        """Run `work` as one transaction among those of all processes."""
        return self._ledger.change(work, *args, **kw)

    def look(
        self, work: Callable[Concatenate[sqlite3.Connection, P], T], *args: P.args, **kw: P.kwargs
    ) -> T:
        """Run `work`, which only reads, on what the server has now."""
        return self._ledger.change(work, *args, **kw)

    def peek(self, work: Callable[[sqlite3.Connection], T], *, lenient: bool = False) -> T:
        """Run `work`, which only reads, on what was heard a moment ago."""
        return self._ledger.peek(work, lenient=lenient)

    def close(self) -> None:
        """End it."""
        self._ledger.detach(self)


def _nothing(_connection: sqlite3.Connection) -> None:
    """For a transaction that only has the parts take possession."""
