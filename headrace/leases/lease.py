"""A lease that is held: how long it lasts, whether it is lost, and the thread that renews it."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable

from headrace.errors import HeadraceError
from headrace.kill_points import kill_point
from headrace.leases.exceptions import LeaseLost
from headrace.leases.model import Grant, Holder, LeaseStatus
from headrace.leases.store import LeaseStore
from headrace.leases.this_machine import Machine

_log = logging.getLogger(__name__)


class Lease:
    """A lease that this process holds, as long as `lost` is False.

    All methods may be called from any thread. A forked child may `check`, but the lease stays its
    parent's: the child neither renews nor releases it.
    """

    def __init__(
        self,
        store: LeaseStore,
        grant: Grant,
        *,
        until_boot_s: float,
        on_lost: Callable[[LeaseLost], None] | None,
        machine: Machine,
    ) -> None:
        self._store = store
        self._grant = grant
        self._until_boot_s = until_boot_s
        self._on_lost = on_lost
        self._machine = machine
        self._loss: LeaseLost | None = None
        self._closed = False
        self._lock = threading.Lock()

    @property
    def name(self) -> str:
        """What is held."""
        return self._grant.name

    @property
    def token(self) -> int:
        """Fencing token, higher than that of every earlier holder; to be stored with a commit."""
        return self._grant.token

    @property
    def grant(self) -> Grant:
        """What the store knows us by, as of the last renewal."""
        return self._grant

    @property
    def predecessor(self) -> tuple[Holder, LeaseStatus] | None:
        """Who held it before without releasing it, and why that was over."""
        return self._grant.predecessor

    @property
    def lost(self) -> bool:
        """Whether the lease is over as far as we know, without asking the store."""
        return self._loss is not None or self.left_s <= 0

    @property
    def left_s(self) -> float:
        """Seconds until it ends unless renewed; suspension of the machine counts."""
        return self._until_boot_s - self._machine.boot_s()

    def check_time(self) -> None:
        """Whether the lease is still ours by its time alone, without asking the store.

        To be called right before everything that takes effect for others: who was stopped for
        longer than the lease lasts finds out here, before the renewal does.

        Raises:
            LeaseLost: it is not; nothing may take effect any more.
        """
        if self._loss is not None:
            raise self._loss
        if self._closed:
            raise LeaseLost(self.name, self.token, "it was given back")
        if self.left_s <= 0:
            loss = self.over_time()
            self.lose(loss)
            raise loss

    def check(self) -> None:
        """Ask the store whether the lease is still ours; to be called right before every commit.

        Raises:
            LeaseLost: it is not; nothing may be committed any more.
            LeaseStoreUnavailable: it is not known now; nothing may be committed now.
        """
        try:
            self.check_time()
            self._store.check(self._grant)
        except LeaseLost as loss:
            self.lose(loss)
            raise

    def over_time(self, cause: Exception | None = None) -> LeaseLost:
        """The loss that consists in not having been renewed in time, and what prevented it."""
        reason = f"it was not renewed for {self._grant.holder.ttl_s:g} s"
        loss = LeaseLost(self.name, self.token, f"{reason} ({cause})" if cause else reason)
        loss.__cause__ = cause
        return loss

    def hand_over(self, run_id: str, on_lost: Callable[[LeaseLost], None] | None) -> None:
        """Let another run of this process have it: the store shows its id from now on.

        Raises:
            LeaseLost: it is lost already; the run has to take it for itself.
            LeaseStoreUnavailable: the store did not answer; whose it shows is not known then.
        """
        asked_boot_s = self._machine.boot_s()
        grant = self._store.renew(self._grant, run_id=run_id)
        self.renewed(grant, until_boot_s=asked_boot_s + grant.holder.ttl_s)
        with self._lock:
            if self._loss is not None:
                raise self._loss
            self._on_lost = on_lost

    def renewed(self, grant: Grant, *, until_boot_s: float) -> None:
        """Note what a renewal brought."""
        with self._lock:
            self._grant, self._until_boot_s = grant, until_boot_s

    def lose(self, loss: LeaseLost) -> None:
        """Note that the lease is gone for good, and call `on_lost`, once."""
        with self._lock:
            if self._closed or self._loss is not None:
                return
            self._loss = loss
        _log.error("%s", loss)
        if self._on_lost is None:
            return
        try:
            self._on_lost(loss)
        except Exception:  # noqa: BLE001 - the loss itself is what has to reach the caller
            _log.exception("the handler of the lost lease on %s failed", self.name)

    def close(self) -> None:
        """Give the lease back, as far as it is still ours. Never raises for the store's sake."""
        with self._lock:
            self._closed = True
        try:
            self._store.release(self._grant)
        except LeaseLost as loss:
            _log.warning("%s", loss)
        except HeadraceError as error:
            # The work is done and safe, or has its own error to raise: a lease that cannot be given
            # back ends by its time.
            _log.warning("the lease on %s was not released: %s", self.name, error)


_SHARE_OF_TTL = 1 / 3
_RETRY_SHARE_OF_TTL = 1 / 12
_LONGEST_RETRY_PAUSE_S = 5.0
# Store calls are bounded by time-outs of their own; an exit need not sit through all of one.
_JOIN_S = 5.0


class Renewal:
    """Renews a lease every third of its time to live, until stopped or lost.

    A store that does not answer is asked again and again until the time to live is over: only then
    is the lease lost. What the store says about the lease itself counts at once.
    """

    def __init__(self, store: LeaseStore, lease: Lease, *, machine: Machine) -> None:
        self._store = store
        self._lease = lease
        self._machine = machine
        self._failure: Exception | None = None
        self._done = threading.Event()
        self._thread = threading.Thread(
            target=self._run, name=f"lease-renewal {lease.name}", daemon=True
        )

    def start(self) -> None:
        """Begin, in a thread that ends with the process."""
        self._thread.start()

    def stop(self) -> None:
        """End, waiting for a store call under way, but not for long. May be called unstarted."""
        self._done.set()
        if self._thread.ident is not None:
            self._thread.join(_JOIN_S)

    def step(self) -> float | None:
        """Renew once.

        Returns:
            Seconds until the next attempt, or None if the lease is lost.
        """
        lease = self._lease
        if lease.left_s <= 0:
            lease.lose(lease.over_time(self._failure))
            return None
        asked_boot_s = self._machine.boot_s()
        kill_point("during-renewal")
        try:
            grant = self._store.renew(lease.grant)
        except LeaseLost as loss:
            lease.lose(loss)
            return None
        except Exception as error:  # noqa: BLE001 - the lease lasts until its end in any case
            return self._retry_after(error)
        if self._failure is not None:
            _log.info("the lease on %s is renewed again", lease.name)
        self._failure = None
        lease.renewed(grant, until_boot_s=asked_boot_s + grant.holder.ttl_s)
        return self._until_due_s()

    def _until_due_s(self) -> float:
        """Seconds until so much of the lease is used up; a slow answer has used some of it."""
        ttl_s = self._lease.grant.holder.ttl_s
        return max(0.0, self._lease.left_s - ttl_s * (1 - _SHARE_OF_TTL))

    def _retry_after(self, error: Exception) -> float:
        lease = self._lease
        if self._failure is None:
            _log.warning(
                "the lease on %s could not be renewed, %.0f s left: %s",
                lease.name,
                lease.left_s,
                error,
            )
        self._failure = error
        pause_s = min(lease.grant.holder.ttl_s * _RETRY_SHARE_OF_TTL, _LONGEST_RETRY_PAUSE_S)
        return max(0.0, min(pause_s, lease.left_s))

    def _run(self) -> None:
        pause_s: float | None = self._until_due_s()
        while pause_s is not None and not self._done.wait(pause_s):
            pause_s = self.step()
