"""The rules of a lease, written once over a store that can read a row and swap it.

A backend answers two questions, both linearizable: what is under this name, and may I replace
exactly what I saw. Everything else (who may take, renew, commit, release) is decided here, so that
every backend decides alike.

**Expiry and clocks.** A holder counts its time from *before* it asked, by a clock that cannot step.
Others judge it by that same clock when they run under the same kernel. Only between machines is
another clock compared: the store's own, where its answers have it (`headrace.leases.clock`), else
the wall clocks of the machines. A contender then waits `max_clock_skew_s` longer than the holder
allows itself. Clocks that are further apart than that can let two runs work at once, but not commit
at once: `check` asks the store whose token it is.
"""

from __future__ import annotations

import math
import os
import re
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable
from datetime import datetime, timedelta
from typing import Generic, TypeVar
from uuid import uuid4

from headrace.leases.clock import StoreClock
from headrace.leases.exceptions import InvalidLease, LeaseHeld, LeaseLost, LeaseStoreUnavailable
from headrace.leases.model import Grant, Holder, LeaseState, LeaseStatus, Measured, Row
from headrace.leases.this_machine import THIS_MACHINE, Liveness, Machine

T = TypeVar("T")
_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._:/@+-]{0,199}")
_RUN_ID = re.compile(r"[!-~][ -~]{0,199}")

# A caller that loses a swap has seen another win it, and mostly finds the lease held at the next
# look. More rounds than this mean a store that does not keep what it acknowledges.
_ROUNDS = 16


class LeaseStore(ABC):
    """One lease per name, with a fencing token that rises from holder to holder.

    A token is the greatest of: the last one plus one, `above` plus one, and the time in Unix
    milliseconds. The last keeps tokens rising even when a row, a file or a table was deleted.

    Args:
        machine: clocks and processes to judge by.
        max_clock_skew_s: how far the clocks that are compared may be apart.
        clock: the store's own; the wall clocks of the machines are compared if left out.
    """

    #: Whether every holder runs on one machine, so that another boot id means a reboot.
    one_machine: bool = False

    def __init__(
        self,
        *,
        machine: Machine = THIS_MACHINE,
        max_clock_skew_s: float = 5.0,
        clock: StoreClock | None = None,
    ) -> None:
        self._machine = machine
        self._clock = clock
        self._max_clock_skew = timedelta(seconds=max_clock_skew_s)

    @property
    @abstractmethod
    def where(self) -> str:
        """Path or table, for messages."""

    @abstractmethod
    def _read(self, name: str) -> Row | None:
        """The row under `name`, with everything in it that any swap has acknowledged."""

    @abstractmethod
    def _swap(self, seen: Row | None, new: Row) -> bool:
        """Put `new` in the place of `seen`; False, changing nothing, if that is no longer there."""

    @abstractmethod
    def _remove(self, seen: Row) -> None:
        """Remove the row unless another has taken the place of what was seen."""

    @abstractmethod
    def _read_all(self) -> Iterable[Row]:
        """Every row, in any order."""

    def _read_many(self, names: Iterable[str]) -> Iterable[Row | None]:
        """The rows under these names, in their order."""
        return [self._read(name) for name in names]

    def prove(self) -> None:  # noqa: B027 - most stores keep it by what they are
        """Look whether the store keeps its side of `_swap`, where that is not certain.

        Raises:
            LeaseStoreMisconfigured: it does not; no lease in it can be trusted.
        """

    def measure(self) -> Measured:
        """What one read takes, and this machine's clock beside the store's."""
        began_s = self._machine.boot_s()
        self._read("doctor")
        took_s = self._machine.boot_s() - began_s
        if self._clock is None:
            return Measured(took_s, None)
        half = (self._clock.latest() - self._clock.earliest()) / 2
        return Measured(took_s, self._machine.now() - self._clock.earliest() - half)

    def acquire(self, name: str, *, run_id: str, ttl_s: float, above: int = 0) -> Grant:
        """Take the lease, at once or not at all.

        Args:
            name: canonical name; two spellings are two leases.
            run_id: shown to a run that finds the lease taken.
            ttl_s: seconds until it ends unless renewed.
            above: the new token will exceed this too (say, the token in a checkpoint).

        Raises:
            LeaseHeld: another run holds it, and neither its time nor its process is over.
            InvalidLease: unusable name, run id or time to live.
            LeaseStoreUnavailable: the store did not answer. The lease may be ours all the same,
                until its time is over.
        """
        _validate(name, run_id, ttl_s)
        lease_id = uuid4().hex
        for _ in range(_ROUNDS):
            row = self._read(name)
            held_by = row.holder if row else None
            if row and held_by and held_by.lease_id == lease_id:
                # The write was stored although its answer said otherwise.
                return Grant(name, row.token, held_by)
            status = self._status_of(held_by, margin=self._max_clock_skew)
            if held_by and status is LeaseStatus.HELD:
                raise LeaseHeld(name, held_by, hint=self._hint_for_skew(held_by))
            holder = self._new_holder(lease_id, run_id, ttl_s)
            now_ms = int(holder.since.timestamp() * 1000)
            token = max(row.token + 1 if row else 0, above + 1, now_ms)
            if self._swap(row, _row(name, token, holder)):
                return Grant(name, token, holder, (held_by, status) if held_by else None)
        raise self._contended(name)

    def renew(self, grant: Grant, *, run_id: str = "") -> Grant:
        """Let the lease last its time to live from now on; it never comes back once it is over.

        Args:
            grant: what `acquire` or the last renewal returned.
            run_id: whose it is from now on; the same run's if left out.

        Raises:
            LeaseLost: it is over, released or another's.
            LeaseStoreUnavailable: the store did not answer; the lease lasts until its old end.
            InvalidLease: unusable run id.
        """
        if run_id:
            _validate(grant.name, run_id, grant.holder.ttl_s)
        for _ in range(_ROUNDS):
            row, holder = self._own(grant)
            renewed = self._extended(holder, run_id or holder.run_id)
            if self._swap(row, _row(row.name, row.token, renewed)):
                return Grant(row.name, row.token, renewed, grant.predecessor)
        raise self._contended(grant.name)

    def check(self, grant: Grant) -> None:
        """Ask the store whether the lease is still ours: the question before every commit.

        Raises:
            LeaseLost: it is over, released or another's.
            LeaseStoreUnavailable: the store did not answer, so nothing may be committed now.
        """
        self._own(grant)

    def release(self, grant: Grant) -> None:
        """Give the lease back; the token stays in the store. Releasing twice is no error.

        Raises:
            LeaseLost: another run holds it, and keeps it.
            LeaseStoreUnavailable: the store did not answer; the lease ends by its time.
        """
        for _ in range(_ROUNDS):
            row = self._read(grant.name)
            if row and row.holder is None and row.token == grant.token:
                return
            if row is None or row.holder is None or not _is_of(row, grant):
                raise self._lost(grant, row)
            if self._swap(row, _row(row.name, row.token, None)):
                return
        raise self._contended(grant.name)

    def force_release(self, name: str, *, token: int | None = None) -> Holder | None:
        """Take the lease away from its holder, who learns it at its next renewal or check.

        Args:
            name: the lease.
            token: only if this is still its token, so that no holder but the one that was looked
                at is cut off.

        Returns:
            Who held it, or None if it was free.

        Raises:
            LeaseHeld: it has passed to another holder than that of `token`.
        """
        for _ in range(_ROUNDS):
            row = self._read(name)
            if row is None or row.holder is None:
                return None
            if token is not None and row.token != token:
                raise LeaseHeld(name, row.holder)
            if self._swap(row, _row(name, row.token, None)):
                return row.holder
        raise self._contended(name)

    def forget(self, name: str) -> None:
        """Remove a lease that nothing will want again, unless it is held.

        Names that bear the id of a run would add up otherwise. A token rises all the same, by time.
        """
        row = self._read(name)
        if row is not None and self._status_of(row.holder) is not LeaseStatus.HELD:
            self._remove(row)

    def state(self, name: str) -> LeaseState:
        """What one lease is worth at this moment."""
        return self.states(name)[0]

    def states(self, *names: str) -> tuple[LeaseState, ...]:
        """The same of several, in their order."""
        return tuple(
            LeaseState(row.name, row.token, self._status_of(row.holder), row.holder)
            if row
            else LeaseState(name, 0, LeaseStatus.FREE, None)
            for name, row in zip(names, self._read_many(names), strict=True)
        )

    def list(self) -> tuple[LeaseState, ...]:
        """Every lease that was ever taken, by name."""
        rows = sorted(self._read_all(), key=lambda row: row.name)
        return tuple(
            LeaseState(row.name, row.token, self._status_of(row.holder), row.holder) for row in rows
        )

    def liveness(self, holder: Holder) -> Liveness:
        """What can be proven from here about the process of `holder`."""
        return self._machine.liveness(holder.process, one_machine=self.one_machine)

    def _status_of(self, holder: Holder | None, *, margin: timedelta = timedelta(0)) -> LeaseStatus:
        if holder is None:
            return LeaseStatus.FREE
        if self._is_over(holder, margin):
            return LeaseStatus.EXPIRED
        return LeaseStatus.DEAD if self.liveness(holder) is Liveness.GONE else LeaseStatus.HELD

    def _is_over(self, holder: Holder, margin: timedelta) -> bool:
        if self._machine.me().shares_boot_clock(holder.process):
            return self._machine.boot_s() >= holder.expires_boot_s
        now = self._clock.earliest() if self._clock else self._machine.now()
        return now >= holder.expires + margin

    def _own(self, grant: Grant) -> tuple[Row, Holder]:
        row = self._read(grant.name)
        if row is None or row.holder is None or not _is_of(row, grant):
            raise self._lost(grant, row)
        if self._is_over(row.holder, timedelta(0)):
            reason = f"it was not renewed for {row.holder.ttl_s:g} s"
            raise LeaseLost(grant.name, grant.token, reason)
        return row, row.holder

    def _lost(self, grant: Grant, row: Row | None) -> LeaseLost:
        if row is None:
            return LeaseLost(grant.name, grant.token, f"{self.where} no longer knows of it")
        if row.holder is None:
            return LeaseLost(grant.name, grant.token, "it was released")
        reason = f"taken over by {row.holder}"
        return LeaseLost(grant.name, grant.token, reason, holder=row.holder)

    def _now(self) -> datetime:
        """The time that a new end is counted from."""
        return self._clock.latest() if self._clock else self._machine.now()

    def _new_holder(self, lease_id: str, run_id: str, ttl_s: float) -> Holder:
        now, boot_s = self._now(), self._machine.boot_s()
        return Holder(
            lease_id=lease_id,
            run_id=run_id,
            process=self._machine.me(),
            since=now,
            expires=now + timedelta(seconds=ttl_s),
            expires_boot_s=boot_s + ttl_s,
            ttl_s=ttl_s,
        )

    def _extended(self, holder: Holder, run_id: str) -> Holder:
        now, boot_s = self._now(), self._machine.boot_s()
        return holder.model_copy(
            update={
                "run_id": run_id,
                "expires": now + timedelta(seconds=holder.ttl_s),
                "expires_boot_s": boot_s + holder.ttl_s,
            }
        )

    def _hint_for_skew(self, holder: Holder) -> str:
        """A lease that ends later than any renewal could have said was written by a wrong clock."""
        ahead = holder.expires - self._now() - timedelta(seconds=holder.ttl_s)
        if self._machine.me().shares_boot_clock(holder.process) or ahead <= self._max_clock_skew:
            return ""
        by = f"{ahead.total_seconds():.0f} s"
        wrong = (
            f"The clock of {self.where} went back by at least {by}"
            if self._clock
            else f"The clock of {holder.host} is at least {by} ahead of ours"
        )
        return (
            f"{wrong}; "
            "if that run is dead, its lease has to be released by hand (headrace lease release)"
        )

    def _contended(self, name: str) -> LeaseStoreUnavailable:
        return LeaseStoreUnavailable(self.where, f"{name} changed {_ROUNDS} times while we looked")


def _row(name: str, token: int, holder: Holder | None) -> Row:
    return Row(name=name, token=token, stamp=uuid4().hex, holder=holder)


def _is_of(row: Row, grant: Grant) -> bool:
    return (
        row.token == grant.token
        and row.holder is not None
        and row.holder.lease_id == grant.holder.lease_id
    )


def _validate(name: str, run_id: str, ttl_s: float) -> None:
    if not _NAME.fullmatch(name):
        allowed = "1 to 200 letters, digits and . _ : / @ + -, the first a letter or digit"
        raise InvalidLease("the name of a lease", name, allowed)
    if not _RUN_ID.fullmatch(run_id):
        raise InvalidLease("a run id", run_id, "1 to 200 printable ASCII characters")
    if not (math.isfinite(ttl_s) and 0 < ttl_s <= 86_400):
        raise InvalidLease("the time to live of a lease", ttl_s, "more than 0, at most 86400 s")


class PerProcess(Generic[T]):
    """One `T` in each process that asks, whether it was forked or spawned.

    Such as a connection, which a forked child cannot share.

    Args:
        make: makes it; called again in a process that has none.
    """

    def __init__(self, make: Callable[[], T]) -> None:
        self._make = make
        self._made: tuple[int, T] | None = None

    def __getstate__(self) -> dict[str, object]:
        return {**self.__dict__, "_made": None}

    def get(self) -> T:
        """That of this process."""
        if self._made is None or self._made[0] != os.getpid():
            self._made = os.getpid(), self._make()
        return self._made[1]
