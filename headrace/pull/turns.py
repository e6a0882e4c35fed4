"""Whose turn it is: what the runs of one product must hold to do what.

A backfill and an ingest of one product may work side by side. Each is one lease, so that there is
one of its kind. Their parts cannot collide, since both cut the same grid into blocks
(docs/adr/0004); what they must not do at once is to sweep and merge, which is a third lease, taken
for the moment and left to whoever has it. A run that replaces parts holds that one, too, from its
beginning to its end: a merge that has read a part before it is replaced would bring the old one
back, and take the new one away.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, ExitStack, contextmanager
from dataclasses import dataclass
from typing import Protocol

from headrace.leases import Lease, LeaseHeld, LeaseLost, LeaseStore, Standing, claim, hold
from headrace.leases.machine import THIS_MACHINE, Machine
from headrace.stopping import STOP, StopEvent

_PLANNERS = ("backfill", "ingest")
_UPKEEP_TTL_S = 120.0


class HeldLease(Protocol):
    """What work under a lease needs of it: one lease, or several held at once."""

    @property
    def token(self) -> int:
        """The fencing token."""

    def check(self) -> None:
        """Raise `LeaseLost` unless the lease is still held."""


@dataclass(frozen=True, slots=True)
class AllRuns:
    """The leases of every kind of run of a product, held at once."""

    leases: tuple[Lease, ...]

    @property
    def token(self) -> int:
        """The highest fencing token of them."""
        return max(lease.token for lease in self.leases)

    def check(self) -> None:
        """Raise `LeaseLost` unless all are still held."""
        for lease in self.leases:
            lease.check()


class Turns:
    """The leases of one product of one source in one lake.

    Args:
        leases: where leases are.
        source: the exchange's name.
        product: canonical product id.
        lake: location of the lake, so that two lakes do not wait for each other.
    """

    def __init__(self, leases: LeaseStore, source: str, product: str, lake: str) -> None:
        self._leases = leases
        self._stem = f"{source}/{product}@{lake_tag(lake)}"
        self._upkeep = f"{self._stem}:upkeep"

    def run(self, planner: str) -> str:
        """Name of the lease of a run: one `backfill` and one `ingest` at a time."""
        return f"{self._stem}:{planner}"

    @contextmanager
    def at_work(
        self,
        planner: str,
        run_id: str,
        *,
        ttl_s: float,
        replaces: bool = False,
        stop: StopEvent = STOP,
        on_lost: Callable[[LeaseLost], None] | None = None,
        above: int = 0,
        machine: Machine = THIS_MACHINE,
    ) -> Iterator[Lease]:
        """The lease of a run for a `with` block; see `headrace.leases.hold`.

        Args:
            replaces: the run replaces parts, so nobody else may sweep or merge meanwhile.

        Raises:
            LeaseHeld: a run of the kind is under way, or somebody is just merging what this one
                is to replace.
        """
        names = [self.run(planner), *([self._upkeep] if replaces else [])]
        with ExitStack() as held:
            leases = [
                held.enter_context(
                    hold(
                        self._leases,
                        name,
                        run_id=run_id,
                        ttl_s=ttl_s,
                        stop=stop,
                        on_lost=on_lost,
                        above=above,
                        machine=machine,
                    )
                )
                for name in names
            ]
            yield leases[0]

    def claimed(self, planner: str, *, ttl_s: float) -> AbstractContextManager[None]:
        """The lease of a run, taken before the run can begin; see `headrace.leases.claim`.

        Raises:
            LeaseHeld: a run of the kind is under way.
        """
        return claim(self._leases, self.run(planner), ttl_s=ttl_s)

    def check_free(self, planner: str) -> None:
        """Look, without taking it.

        Raises:
            LeaseHeld: a run of the kind is under way.
        """
        found = self._leases.state(self.run(planner))
        if found.holder and found.standing is Standing.HELD:
            raise LeaseHeld(found.name, found.holder)

    def backfill_is_under_way(self) -> bool:
        """Whether somebody holds the backfill's lease."""
        return self._leases.state(self.run("backfill")).standing is Standing.HELD

    @contextmanager
    def alone(self, run_id: str, *, ttl_s: float, above: int = 0) -> Iterator[AllRuns]:
        """Keep every run off the product for a `with` block; the token will exceed `above`.

        Raises:
            LeaseHeld: a run is under way.
        """
        with ExitStack() as held:
            yield AllRuns(
                tuple(
                    held.enter_context(
                        hold(
                            self._leases,
                            self.run(planner),
                            run_id=run_id,
                            ttl_s=ttl_s,
                            above=above,
                        )
                    )
                    for planner in _PLANNERS
                )
            )

    @contextmanager
    def upkeep(self, run_id: str) -> Iterator[bool]:
        """A turn at sweeping and merging: False if somebody else has it."""
        try:
            with hold(self._leases, self._upkeep, run_id=run_id, ttl_s=_UPKEEP_TTL_S):
                yield True
        except LeaseHeld:
            yield False


def lake_tag(lake: str) -> str:
    """Eight hex digits that stand for a lake's location."""
    return hashlib.sha256(lake.encode()).hexdigest()[:8]
