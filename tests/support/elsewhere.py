"""Another machine, with a clock of its own, for stores of leases."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

from headrace.leases.model import Process
from headrace.leases.this_machine import THIS_MACHINE, Liveness


class Elsewhere:
    """A machine of which nothing is known here but what it writes.

    Args:
        host: its name.
        ahead_s: by how much its wall clock is wrong.
    """

    def __init__(self, host: str, ahead_s: float) -> None:
        self.host, self.ahead_s = host, ahead_s

    def now(self) -> datetime:
        """Its wall clock."""
        return datetime.now(UTC) + timedelta(seconds=self.ahead_s)

    def boot_s(self) -> float:
        """Its time since boot, which started at another moment."""
        return THIS_MACHINE.boot_s() + 1e6

    def me(self) -> Process:
        """Its one process."""
        return Process(host=self.host, pid=1, boot_id=f"boot-{self.host}")

    def liveness(self, process: Process, *, one_machine: bool) -> Liveness:
        """Nothing can be proven from here."""
        return Liveness.UNKNOWN
