"""The background thread that keeps a lease alive, and the moment at which it gives up."""

from __future__ import annotations

import logging
import threading
from typing import TYPE_CHECKING

from headrace.faults import kill_point
from headrace.leases.exceptions import LeaseLost
from headrace.leases.machine import Machine
from headrace.leases.store import LeaseStore

if TYPE_CHECKING:
    from headrace.leases.lease import Lease

_log = logging.getLogger(__name__)

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
        except Exception as error:  # noqa: BLE001 - whatever it is, the lease lasts until its end
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
