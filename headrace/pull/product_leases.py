"""The leases of one product: what a run must hold to do what.

A backfill and an ingest of one product may work side by side. Each is one lease, so that there is
one of its kind. Their parts cannot collide, since both cut the same grid into blocks
(docs/adr/0004); what they must not do at once is to sweep and merge, which is a third lease, taken
for a moment and left to the run that has it. A run that replaces parts holds that one, too, from
its beginning to its end: a merge that has read a part before it is replaced would bring the old one
back, and take the new one away.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, ExitStack, contextmanager, suppress
from dataclasses import dataclass
from typing import Protocol

from headrace.lake.names import location_digest
from headrace.leases import (
    Lease,
    LeaseHeld,
    LeaseLost,
    LeaseStatus,
    LeaseStore,
    claim,
    give_back_claim,
    hold,
    is_claimed,
)
from headrace.leases.this_machine import THIS_MACHINE, Machine
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
        """The same by its time alone, without asking the store; see `Lease.check_time`."""


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
        """The same by their time alone, without asking the store."""
        for lease in self.leases:
            lease.check_time()


class ProductLeases:
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
        self._stem = f"{source}/{product}@{location_digest(lake)}"
        self.upkeep_name = f"{self._stem}:upkeep"

    def run(self, work: str) -> str:
        """Name of the lease of a run: one `backfill` and one `ingest` at a time.

        Below a spread backfill, whose run holds that one, each part has a lease on its range
        (`backfill:LO-HI`).
        """
        return f"{self._stem}:{work}"

    @contextmanager
    def acquire(
        self,
        work: str,
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
            replaces: the run replaces parts, so no other run may sweep or merge meanwhile.

        Raises:
            LeaseHeld: a run of the kind is under way, or another is just merging what this one
                is to replace.
        """
        names = [self.run(work), *([self.upkeep_name] if replaces else [])]
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

    def claim(self, work: str, *, ttl_s: float) -> AbstractContextManager[None]:
        """The lease of a run, taken before the run can begin; see `headrace.leases.claim`.

        Raises:
            LeaseHeld: a run of the kind is under way.
        """
        return claim(self._leases, self.run(work), ttl_s=ttl_s)

    def check_free(self, work: str) -> bool:
        """Look, without taking it; what this process has claimed for the run is free to it.

        Returns:
            Whether a backfill is under way, which is asked for along with it.

        Raises:
            LeaseHeld: a run of the kind is under way.
        """
        own, backfill = self._leases.states(self.run(work), self.run("backfill"))
        held = own.status is LeaseStatus.HELD and not is_claimed(self._leases, own.name)
        if own.holder and held:
            raise LeaseHeld(own.name, own.holder)
        return backfill.status is LeaseStatus.HELD

    def check_no_parts(self, work: str) -> None:
        """Look whether parts of a spread run are under way, whose run is gone.

        Raises:
            LeaseHeld: one is.
        """
        ranges = f"{self.run(work)}:"
        for state in self._leases.list():
            held = state.status is LeaseStatus.HELD and state.name.startswith(ranges)
            if held and state.holder:
                raise LeaseHeld(state.name, state.holder)

    def give_back_claim(self, work: str) -> None:
        """Give back at once what this process has claimed for a run that needs no lease."""
        give_back_claim(self._leases, self.run(work))

    def is_backfill_running(self) -> bool:
        """Whether a run holds the backfill's lease."""
        return self._leases.state(self.run("backfill")).status is LeaseStatus.HELD

    def is_under_way(self) -> bool:
        """Whether a run works on the product, or another is sweeping or merging its parts."""
        names = [*map(self.run, _PLANNERS), self.upkeep_name]
        return any(self._leases.state(name).status is LeaseStatus.HELD for name in names)

    @contextmanager
    def acquire_all(self, run_id: str, *, ttl_s: float, above: int = 0) -> Iterator[HeldLeases]:
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
    def acquire_upkeep(self, run_id: str) -> Iterator[Lease | None]:
        """The lease on sweeping and merging, or None if another run has it."""
        with ExitStack() as held:
            lease: Lease | None = None
            with suppress(LeaseHeld):
                lease = held.enter_context(
                    hold(self._leases, self.upkeep_name, run_id=run_id, ttl_s=_UPKEEP_TTL_S)
                )
            yield lease
