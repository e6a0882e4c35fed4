"""What a lease is: a name, a token that only rises, and at most one holder."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import timedelta
from enum import StrEnum

from pydantic import AwareDatetime, BaseModel


class Process(BaseModel, frozen=True, extra="forbid"):
    """One process, distinct from every other that ever had its pid.

    Linux only fills all of it; elsewhere, and where `/proc` shows another namespace, the fields
    that cannot be known are None, and nothing is concluded from them.

    Attributes:
        host: host name, as shown to people.
        pid: process id inside `pid_ns`.
        boot_id: the kernel's id of this boot (`/proc/sys/kernel/random/boot_id`).
        start_ticks: start time in clock ticks since boot (`proc_pid_stat(5)`, field 22).
        pid_ns, time_ns: namespaces in which `pid` and the time since boot have their meaning.
    """

    host: str
    pid: int
    boot_id: str | None = None
    start_ticks: int | None = None
    pid_ns: str | None = None
    time_ns: str | None = None

    def shares_boot_clock(self, other: Process) -> bool:
        """Whether seconds since boot mean the same for both."""
        return (
            self.boot_id is not None
            and self.boot_id == other.boot_id
            and self.time_ns == other.time_ns
        )


class Holder(BaseModel, frozen=True, extra="forbid"):
    """Who holds a lease, since when and until when.

    Attributes:
        lease_id: random id of this holding; distinguishes two threads of one process.
        run_id: the run on whose behalf it is held.
        process: where it runs.
        since, expires: wall clock of the holder's machine, UTC.
        expires_boot_s: the same end in seconds since boot: immune to steps of the wall clock, but
            meaningful only where `Process.shares_boot_clock`.
        ttl_s: what every renewal adds.
    """

    lease_id: str
    run_id: str
    process: Process
    since: AwareDatetime
    expires: AwareDatetime
    expires_boot_s: float
    ttl_s: float

    @property
    def host(self) -> str:
        """Name of the holder's machine."""
        return self.process.host

    @property
    def pid(self) -> int:
        """Process id of the holder on its machine."""
        return self.process.pid

    def __str__(self) -> str:
        since = self.since.strftime("%Y-%m-%dT%H:%M:%SZ")
        return f"{self.host} pid {self.pid} run {self.run_id} since {since}"


class Row(BaseModel, frozen=True, extra="forbid"):
    """What a store keeps under a name, also without a holder, so that the token never falls.

    Attributes:
        token: fencing token of the present or last holder.
        stamp: random, new with every write; writers compare it, so no change is overlooked.
        holder: None once released.
    """

    name: str
    token: int
    stamp: str
    holder: Holder | None


class LeaseStatus(StrEnum):
    """What a lease is worth at this moment, as seen from here."""

    FREE = "free"  #: released, or never taken
    HELD = "held"
    EXPIRED = "expired"  #: its time is over; the next run takes it
    DEAD = "dead"  #: its process is provably gone; the next run takes it


@dataclass(frozen=True)
class Measured:
    """One look at a store.

    Attributes:
        took_s: seconds until it answered.
        ahead: by how much this machine's clock is ahead of the store's; None if its clock does not
            count, as in a file of this machine.
    """

    took_s: float
    ahead: timedelta | None


@dataclass(frozen=True)
class LeaseState:
    """One line of a listing."""

    name: str
    token: int
    status: LeaseStatus
    holder: Holder | None


@dataclass(frozen=True)
class Grant:
    """What a store hands to a new holder, and what it wants to see for every later call.

    Attributes:
        token: fencing token, higher than that of every earlier holder of the name.
        predecessor: who held it before without releasing it, and why that was over.
    """

    name: str
    token: int
    holder: Holder
    predecessor: tuple[Holder, LeaseStatus] | None = None
