"""Time that no one can set: monotonic nanoseconds, and the boot that they count from."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Protocol

import psutil

NS = 1_000_000_000
MS = 1_000_000

_BOOT_ID = Path("/proc/sys/kernel/random/boot_id")


class Clock(Protocol):
    """What the quota and the breaker know of time."""

    @property
    def boot_id(self) -> str:
        """Names the span over which `now` is comparable, between processes too."""
        ...

    def now(self) -> int:
        """Nanoseconds since some moment of this boot; never goes back."""
        ...


class MonotonicClock:
    """The machine's monotonic clock, which all processes of one boot share.

    Setting the wall clock does not move it. It starts anew with every boot, so what is stored is
    only good together with the boot's id.
    """

    def __init__(self) -> None:
        self.boot_id = _boot_id()
        self.now = time.monotonic_ns  # an attribute, not a method: it is on the hot path


def _boot_id() -> str:
    try:
        return _BOOT_ID.read_text().strip()
    except OSError:  # not Linux; whole minutes, because the value follows the wall clock's steps
        return f"booted-{round(psutil.boot_time() / 60)}"
