"""The time of a store's server, known from its answers: one clock for all machines that share it.

An answer says when the server made it, which was between the moment it was asked and the moment the
answer came. From then on the time since boot counts, which no clock of a machine can shift. So the
server's time is known as an interval: an end is written by its latest moment, and judged by its
earliest, and a holder that counts from before it asked stops before any other run takes over.
"""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime, timedelta

#: How far the clocks of several servers of one store may be apart, in seconds: the gateways of an
#: S3 store, or a Postgres and the standby that takes its place.
SERVERS_APART_S = 2.0


class StoreClock:
    """What time it is at a store's server.

    Args:
        boot_s: seconds since boot of this machine; never steps.
        resolution_s: what the server rounds down to: 1 for the `Date` header of HTTP.
    """

    def __init__(self, boot_s: Callable[[], float], *, resolution_s: float) -> None:
        self._boot_s = boot_s
        self._resolution_s = resolution_s
        self._answer: tuple[datetime, float, float] | None = None

    def note(self, said: datetime, *, asked_boot_s: float) -> None:
        """Remember what an answer said that has just come."""
        self._answer = said, asked_boot_s, self._boot_s()

    def earliest(self) -> datetime:
        """The server's time by now, at least."""
        said, _, answered_boot_s = self._noted()
        return said + timedelta(seconds=self._boot_s() - answered_boot_s)

    def latest(self) -> datetime:
        """The server's time by now, at most."""
        said, asked_boot_s, _ = self._noted()
        return said + timedelta(seconds=self._boot_s() - asked_boot_s + self._resolution_s)

    def _noted(self) -> tuple[datetime, float, float]:
        if self._answer is None:
            raise RuntimeError("the store's time is asked for before its first answer")
        return self._answer
