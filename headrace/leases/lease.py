"""Holding a lease while work goes on: `hold`, the context manager every run stands in."""

from __future__ import annotations

import logging
import os
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from headrace.errors import HeadraceError
from headrace.leases.exceptions import LeaseLost
from headrace.leases.machine import THIS_MACHINE, Machine
from headrace.leases.model import Grant, Holder, Standing
from headrace.leases.renewal import Renewal
from headrace.leases.store import LeaseStore
from headrace.stopping import STOP, StopEvent

_log = logging.getLogger(__name__)

DEFAULT_TTL_S = 60.0


class Lease:
    """A lease in our hands, as long as `lost` is False.

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
    def predecessor(self) -> tuple[Holder, Standing] | None:
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

    def check(self) -> None:
        """Ask the store whether the lease is still ours; to be called right before every commit.

        Raises:
            LeaseLost: it is not; nothing may be committed any more.
            LeaseStoreUnavailable: nobody can tell now; nothing may be committed now.
        """
        try:
            if self._loss is not None:
                raise self._loss
            if self.left_s <= 0:
                raise self.over_time()
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

    def renewed(self, grant: Grant, *, until_boot_s: float) -> None:
        """Note what a renewal brought."""
        with self._lock:
            self._grant, self._until_boot_s = grant, until_boot_s

    def lose(self, loss: LeaseLost) -> None:
        """Note that the lease is gone for good, and tell the holder, once."""
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
            _log.exception("what was to be told of the lost lease on %s failed itself", self.name)

    def close(self) -> None:
        """Give the lease back, as far as it is still ours. Never raises for the store's sake."""
        with self._lock:
            self._closed = True
        try:
            self._store.release(self._grant)
        except LeaseLost as loss:
            _log.warning("%s", loss)
        except HeadraceError as error:
            # The work is done and safe, or has its own error to tell: a lease that cannot be given
            # back ends by its time.
            _log.warning("the lease on %s was not released: %s", self.name, error)


@contextmanager
def hold(
    store: LeaseStore,
    name: str,
    *,
    run_id: str,
    ttl_s: float = DEFAULT_TTL_S,
    stop: StopEvent = STOP,
    on_lost: Callable[[LeaseLost], None] | None = None,
    above: int = 0,
    machine: Machine = THIS_MACHINE,
) -> Iterator[Lease]:
    """Hold the lease on `name` for the length of the block, renewing it in the background.

    Never waits for another holder. Renewal goes on while the process is asked to stop, since what
    is fetched still has to be committed. Losing the lease does not interrupt the block: `on_lost`
    is told, `Lease.lost` turns True, and `Lease.check` raises.

    Args:
        store: where leases are kept.
        name: canonical name, such as `coinbase/BTC-USD`.
        run_id: shown to whoever finds the lease taken.
        ttl_s: seconds after which the lease ends if this process cannot renew it any more. It is
            renewed every third of that.
        stop: looked at before the lease is taken.
        on_lost: called once, from the thread that finds out (mostly the renewal's), at the latest
            one store call after the lease has ended. Not called once the block has ended.
        above: the token will exceed this, too (say, the token in a checkpoint).
        machine: whose clock the holder's time is counted by.

    Raises:
        LeaseHeld: somebody else holds it.
        Stopped: the stop was set before the lease was taken.
        LeaseStoreUnavailable, LeaseStoreMisconfigured, DamagedLeases, NewerLeases: no lease to be
            had from this store; nothing was touched.
    """
    stop.check()
    asked_boot_s = machine.boot_s()
    grant = store.acquire(name, run_id=run_id, ttl_s=ttl_s, above=above)
    if grant.predecessor:
        _log.warning("took the lease on %s over: %s", name, _end_of(*grant.predecessor))
    lease = Lease(store, grant, until_boot_s=asked_boot_s + ttl_s, on_lost=on_lost, machine=machine)
    owner_pid = os.getpid()
    renewal = Renewal(store, lease, machine=machine)
    try:
        renewal.start()
        yield lease
    finally:
        if os.getpid() == owner_pid:
            renewal.stop()
            lease.close()


def _end_of(holder: Holder, standing: Standing) -> str:
    if standing is Standing.DEAD:
        return f"its holder {holder} is gone"
    return f"that of {holder} ended at {holder.expires:%Y-%m-%dT%H:%M:%SZ}"
