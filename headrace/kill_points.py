"""Named points at which a process kills itself, so that tests can show that it does no harm.

`HEADRACE_KILL_AT="after-part:3"` makes the process send itself SIGKILL the third time it passes
the point `after-part` (without a number: the first time). Nothing is flushed and no handler runs,
as when the machine loses power. Without the variable a point costs one cached look-up.
"""

from __future__ import annotations

import functools
import os
import signal
import threading

from headrace.errors import ConfigurationError

ENVIRONMENT_VARIABLE = "HEADRACE_KILL_AT"

#: Every kill point, and the moment it stands for.
KILL_POINTS = {
    "after-fetch": "a chunk's rows are in memory, nothing is written",
    "during-part": "half of a file is written under its temporary name (any file of a local lake)",
    "before-rename": "a file is complete and durable under its temporary name (likewise)",
    "after-part": "the part is durable under its final name, its caller does not know yet",
    "before-checkpoint": "parts are durable, the checkpoint is about to be saved",
    "after-checkpoint": "the checkpoint is saved, the run goes on",
    "during-renewal": "a lease is about to be renewed",
    "after-merge": "the merged part is durable, its pieces are still there",
    "during-append": "half of an append to the embedded log is written",
    "before-append-sync": "an append is written as a whole, not yet synced",
    "after-append": "an append is durable, not acknowledged yet",
    "during-merge-removal": "some of the pieces of a merged part are removed",
    "during-sweep": "some of the pieces that an earlier kill left beside their part are removed",
    "after-aside": "a file is copied out of the way, under its own name it is still there",
    "before-unified-file": "a file of the unified table is written, not yet durable",
    "after-unified-file": "a file of the unified table is durable, nothing is committed",
    "after-quarantine-commit": "trades that do not fit are in the quarantine, the others nowhere",
    "after-unified-commit": "a change of the unified table is committed, its caller does not know",
    "before-manifest": "a manifest is signed, and the lists of its parts are durable",
    "after-manifest": "a manifest is durable, its caller does not know yet",
    "after-shortening": "what a part has beyond the one before it is durable, the part is not gone",
}


class KillSwitch:
    """Kills this process on the n-th pass of one point.

    Args:
        point: the point's name, one of `KILL_POINTS`.
        passes: on which pass (1 is the first).
    """

    def __init__(self, point: str, passes: int) -> None:
        self.point = point
        self._left = passes
        self._lock = threading.Lock()

    @classmethod
    def parse(cls, text: str) -> KillSwitch:
        """The switch for `name` or `name:n`.

        Raises:
            ConfigurationError: if there is no such point, or n is not a positive number.
        """
        point, _, count = text.partition(":")
        if point not in KILL_POINTS:
            raise ConfigurationError(
                f"{ENVIRONMENT_VARIABLE}={text!r} names no kill point",
                hint=f"There are: {', '.join(KILL_POINTS)}",
            )
        if count and not (count.isascii() and count.isdigit() and int(count) > 0):
            raise ConfigurationError(
                f"{ENVIRONMENT_VARIABLE}={text!r} has no usable count", hint="Write name:3"
            )
        return cls(point, int(count or 1))

    def passed(self, point: str) -> bool:
        """Count a pass of `point`; whether the process has to die now."""
        if point != self.point:
            return False
        with self._lock:
            self._left -= 1
            return self._left == 0


@functools.cache
def _switch() -> KillSwitch | None:
    text = os.environ.get(ENVIRONMENT_VARIABLE)
    return KillSwitch.parse(text) if text else None


def kill_point(name: str) -> None:
    """Die here by SIGKILL if the environment asked for it; otherwise do nothing.

    Raises:
        ConfigurationError: if the variable is set to something that cannot be meant.
    """
    switch = _switch()
    if switch is not None and switch.passed(name):
        os.kill(os.getpid(), signal.SIGKILL)
