"""Whose turn it is: what the runs of one product must hold to do what.

A backfill and an ingest of one product may work side by side. Each is one lease, so that there is
one of its kind. Their parts cannot collide, since both cut the same grid into blocks
(docs/adr/0004); what they must not do at once is to sweep and merge, which is a third lease, taken
for the moment and left to whoever has it. A run that replaces parts holds that one, too, from its
beginning to its end: a merge that has read a part before it is replaced would bring the old one
back, and take the new one away.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, ExitStack, contextmanager, suppress
from dataclasses import dataclass
from typing import Protocol

from headrace.lake.names import lake_tag
from headrace.leases import (
    Lease,
    LeaseHeld,
    LeaseLost,
    LeaseStore,
    Standing,
    claim,
    give_back_claim,
    hold,
    is_claimed,
)
from headrace.leases.machine import THIS_MACHINE, Machine
from headrace.stopping import STOP, StopEvent

_PLANNERS = ("backfill", "ingest")
_UPKEEP_TTL_S = 120.0


class HeldLease(Protocol):
    """What work under a lease needs of it: one lease, or several held at once."""

    @property
    def token(self) -> int:
        """The fencing token."""

    @property
    def lost(self) -> bool:
        """Whether it is over as far as this process knows."""

    def check(self) -> None:
        """Raise `LeaseLost` unless the lease is still held."""

    def check_time(self) -> None:
        """The same as far as its time tells, without asking the store; see `Lease.check_time`."""


@dataclass(frozen=True, slots=True)
class HeldLeases:
    """Several leases of a product, held at once; lost when one of them is."""

    leases: tuple[Lease, ...]

    @property
    def token(self) -> int:
        """The highest fencing token of them."""
        return max(lease.token for lease in self.leases)

    @property
    def lost(self) -> bool:
        """Whether one of them is over as far as this process knows."""
        return any(lease.lost for lease in self.leases)

    def check(self) -> None:
        """Raise `LeaseLost` unless all are still held."""
        for lease in self.leases:
            lease.check()

    def check_time(self) -> None:
        """The same as far as their time tells, without asking the store."""
        for lease in self.leases:
            lease.check_time()


class Turns:
    """The leases of one product of one source in one lake.

    Args:
        leases: where leases are.
        source: the exchange's name.
        product: canonical product id.
        lake: location of the lake, so that two lakes do not wait for each other.

    Attributes:
        upkeep_name: name of the lease on sweeping and merging.
    """

    def __init__(self, leases: LeaseStore, source: str, product: str, lake: str) -> None:
        self._leases = leases
        self._stem = f"{source}/{product}@{lake_tag(lake)}"
        self.upkeep_name = f"{self._stem}:upkeep"

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
    ) -> Iterator[HeldLease]:
        """The lease of a run for a `with` block; see `headrace.leases.hold`.

        Args:
            replaces: the run replaces parts, so nobody else may sweep or merge meanwhile.

        Raises:
            LeaseHeld: a run of the kind is under way, or somebody is just merging what this one
                is to replace.
        """
        names = [self.run(planner), *([self.upkeep_name] if replaces else [])]
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
            yield HeldLeases(tuple(leases)) if replaces else leases[0]

    def claimed(self, planner: str, *, ttl_s: float) -> AbstractContextManager[None]:
        """The lease of a run, taken before the run can begin; see `headrace.leases.claim`.

        Raises:
            LeaseHeld: a run of the kind is under way.
        """
        return claim(self._leases, self.run(planner), ttl_s=ttl_s)

    def check_free(self, planner: str) -> bool:
        """Look, without taking it; what this process has claimed for the run is free to it.

        Returns:
            Whether a backfill is under way, which is asked for along with it.

        Raises:
            LeaseHeld: a run of the kind is under way.
        """
        own, backfill = self._leases.states(self.run(planner), self.run("backfill"))
        held = own.standing is Standing.HELD and not is_claimed(self._leases, own.name)
        if own.holder and held:
            raise LeaseHeld(own.name, own.holder)
        return backfill.standing is Standing.HELD

    def give_back_claim(self, planner: str) -> None:
        """Give back at once what this process has claimed for a run that needs no lease."""
        give_back_claim(self._leases, self.run(planner))

    def backfill_is_under_way(self) -> bool:
        """Whether somebody holds the backfill's lease."""
        return self._leases.state(self.run("backfill")).standing is Standing.HELD

    def is_under_way(self) -> bool:
        """Whether a run is at the product, or somebody is just sweeping or merging its parts."""
        names = [*map(self.run, _PLANNERS), self.upkeep_name]
        return any(self._leases.state(name).standing is Standing.HELD for name in names)

    @contextmanager
    def alone(self, run_id: str, *, ttl_s: float, above: int = 0) -> Iterator[HeldLeases]:
        """Keep every run off the product for a `with` block; the token will exceed `above`.

        Raises:
            LeaseHeld: a run is under way, or one that lost its lease is just sweeping.
        """
        names = [*(self.run(planner) for planner in _PLANNERS), self.upkeep_name]
        with ExitStack() as held:
            yield HeldLeases(
                tuple(
                    held.enter_context(
                        hold(self._leases, name, run_id=run_id, ttl_s=ttl_s, above=above)
                    )
                    for name in names
                )
            )

    @contextmanager
    def upkeep(self, run_id: str) -> Iterator[Lease | None]:
        """A turn at sweeping and merging: its lease, or None if another run has it."""
        with ExitStack() as held:
            lease: Lease | None = None
            with suppress(LeaseHeld):
                lease = held.enter_context(
                    hold(self._leases, self.upkeep_name, run_id=run_id, ttl_s=_UPKEEP_TTL_S)
                )
            yield lease
