"""Holding a lease while work goes on: `hold`, the context manager around every run.

And `claim`, for a process that has long to load before its run can begin: it takes the lease at
once, and when the run asks for that lease, in the same process, it gets the one that was claimed.
"""

from __future__ import annotations

import logging
import os
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from headrace.leases.exceptions import LeaseLost
from headrace.leases.lease import Lease, Renewal
from headrace.leases.model import Holder, LeaseStatus
from headrace.leases.store import LeaseStore
from headrace.leases.this_machine import THIS_MACHINE, Liveness, Machine
from headrace.stopping import STOP, StopEvent

_log = logging.getLogger(__name__)

DEFAULT_TTL_S = 60.0

#: The run of a lease that was claimed, until there is one.
STARTING = "(starting)"


class _Holding:
    """A lease with the thread that renews it, until `end`."""

    def __init__(self, store: LeaseStore, lease: Lease, *, machine: Machine) -> None:
        self.lease = lease
        self._owner_pid = os.getpid()
        self._renewal = Renewal(store, lease, machine=machine)
        try:
            self._renewal.start()
        except BaseException:
            self.end()
            raise

    def end(self) -> None:
        """Stop renewing and give the lease back; in a forked child, whose lease it is not, no."""
        if os.getpid() == self._owner_pid:
            self._renewal.stop()
            self.lease.close()


#: What was claimed and not asked for yet, by process, place of the store and name.
_CLAIMED: dict[tuple[int, str, str], _Holding] = {}

#: Held while a lease is on its way from the store to `_CLAIMED`.
_CLAIMING = threading.Lock()


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
    is called, `Lease.lost` becomes True, and `Lease.check` raises.

    Args:
        store: where leases are kept.
        name: canonical name, such as `coinbase/BTC-USD`.
        run_id: shown to a run that finds the lease taken.
        ttl_s: seconds after which the lease ends if this process cannot renew it any more. It is
            renewed every third of that.
        stop: looked at before the lease is taken.
        on_lost: called once, from the thread that finds out (mostly the renewal's), at the latest
            one store call after the lease has ended. Not called once the block has ended.
        above: the token will exceed this, too (say, the token in a checkpoint).
        machine: whose clock the holder's time is counted by.

    Raises:
        LeaseHeld: another run holds it.
        Stopped: the stop was set before the lease was taken.
        LeaseStoreUnavailable, LeaseStoreMisconfigured, DamagedLeases, NewerLeases: no lease to be
            had from this store; nothing was touched.
    """
    stop.check()
    holding = _claimed(store, name, run_id=run_id, on_lost=on_lost, above=above) or _taken(
        store, name, run_id=run_id, ttl_s=ttl_s, on_lost=on_lost, above=above, machine=machine
    )
    if before := holding.lease.predecessor:
        _log.warning("took the lease on %s over: %s", name, _end_of(*before))
        _report_gone(store, before[0], run_id)
    try:
        yield holding.lease
    finally:
        holding.end()


#: Called with holders of leases that were taken over, whose processes are gone.
_ON_GONE: list[Callable[[Holder], object]] = []


@contextmanager
def reporting_gone(on_gone: Callable[[Holder], object]) -> Iterator[None]:
    """Have `on_gone` called for each lease that this process takes over within the `with` block
    from another run whose process is proven to be gone, before the work under the lease begins.

    What it raises is logged, and no matter to who takes the lease.
    """
    _ON_GONE.append(on_gone)
    try:
        yield
    finally:
        _ON_GONE.remove(on_gone)


def _report_gone(store: LeaseStore, before: Holder, run_id: str) -> None:
    # A lease may end while its process lives, frozen or cut off.
    if before.run_id == run_id or store.liveness(before) is not Liveness.GONE:
        return
    for on_gone in tuple(_ON_GONE):
        try:
            on_gone(before)
        except Exception:  # noqa: BLE001 - the run that begins has nothing to do with it
            _log.exception("that the process of run %s is gone was not reported", before.run_id)


@contextmanager
def claim(
    store: LeaseStore, name: str, *, ttl_s: float = DEFAULT_TTL_S, machine: Machine = THIS_MACHINE
) -> Iterator[None]:
    """Take the lease on `name` for the first `hold` of it that this process comes to in the block.

    A claim that no `hold` took is given back at the end of the block.

    Raises:
        LeaseHeld, LeaseStoreUnavailable, LeaseStoreMisconfigured, DamagedLeases, NewerLeases: as
            `hold`.
    """
    key = _key(store, name)
    with _CLAIMING:
        _CLAIMED[key] = _taken(
            store, name, run_id=STARTING, ttl_s=ttl_s, on_lost=None, above=0, machine=machine
        )
    try:
        yield
    finally:
        if unused := _CLAIMED.pop(key, None):
            unused.end()


def is_claimed(store: LeaseStore, name: str) -> bool:
    """Whether this process has claimed the lease and no run of it has asked for it yet."""
    return _key(store, name) in _CLAIMED


def give_back_claim(store: LeaseStore, name: str) -> None:
    """Give back at once what was claimed of it, if anything was: its run needs no lease."""
    if unused := _CLAIMED.pop(_key(store, name), None):
        unused.end()


def give_back_claims() -> None:
    """Give back at once what was claimed and not asked for yet: for a process that has to end.

    Nothing is claimed after that.
    """
    _CLAIMING.acquire()
    for key in list(_CLAIMED):
        if unused := _CLAIMED.pop(key, None):
            unused.end()


def _claimed(
    store: LeaseStore,
    name: str,
    *,
    run_id: str,
    on_lost: Callable[[LeaseLost], None] | None,
    above: int,
) -> _Holding | None:
    """What this process has claimed of it, handed over to the run; None if that will not do."""
    holding = _CLAIMED.pop(_key(store, name), None)
    if holding is None:
        return None
    try:
        if holding.lease.token > above:
            holding.lease.hand_over(run_id, on_lost)
            return holding
    except LeaseLost as loss:
        _log.info("%s before the run began; it is asked for again", loss)
    except BaseException:
        holding.end()
        raise
    holding.end()
    return None


def _taken(
    store: LeaseStore,
    name: str,
    *,
    run_id: str,
    ttl_s: float,
    on_lost: Callable[[LeaseLost], None] | None,
    above: int,
    machine: Machine,
) -> _Holding:
    asked_boot_s = machine.boot_s()
    grant = store.acquire(name, run_id=run_id, ttl_s=ttl_s, above=above)
    lease = Lease(store, grant, until_boot_s=asked_boot_s + ttl_s, on_lost=on_lost, machine=machine)
    return _Holding(store, lease, machine=machine)


def _key(store: LeaseStore, name: str) -> tuple[int, str, str]:
    return os.getpid(), store.where, name


def _end_of(holder: Holder, status: LeaseStatus) -> str:
    if status is LeaseStatus.DEAD:
        return f"its holder {holder} is gone"
    return f"that of {holder} ended at {holder.expires:%Y-%m-%dT%H:%M:%SZ}"
