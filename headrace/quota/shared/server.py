"""What a server does for shared quotas: it keeps a list of changes for each.

A change is appended by a process that has seen all before it. A list begins with the content of a
copy, which is replaced now and then, so that no process has to read the whole past.
"""

from __future__ import annotations

from typing import NamedTuple, Protocol

from headrace.quota.shared.clock import ServerClock

#: So many of the latest changes are kept at least, for those who have not asked for a while.
KEPT = 256


class History(NamedTuple):
    """A quota as the server has it.

    Attributes:
        epoch: names this list of changes; another one begins when the server has lost it.
        made: when it began, in nanoseconds of the server's clock.
        unsure: whether a former list may have been lost shortly before.
        version: how many changes there were.
        content: of a copy, some changes ago.
        changes: those since.
    """

    epoch: str
    made: int
    unsure: bool
    version: int
    content: bytes
    changes: list[bytes]


class Position(NamedTuple):
    """How far one process has read: of which quota and list, up to which change."""

    name: str
    epoch: str
    version: int


class Answer(NamedTuple):
    """What became of a change.

    Attributes:
        done: whether all before it had been seen, so that it was appended (if it was one).
        changes: those that had not been seen; none where another change is on its way.
    """

    done: bool
    changes: list[bytes]


#: The list is another one now, or does not reach back as far: read the whole again.
GONE = Answer(False, [])


class Keeper(Protocol):
    """A connection of this process to the server. Safe for many threads.

    Every method raises `QuotaOutage` where the server does not answer in time or the connection is
    lost, and `ConfigurationError` where it will never serve us.
    """

    clock: ServerClock

    @property
    def software(self) -> str:
        """What the server is, and its version."""

    def connect(self) -> int:
        """Make the connection if there is none.

        Returns:
            How often it was made: what was read before the last time may be out of date.
        """

    def read(self, name: str) -> History | None:
        """The quota of that name; None if the server knows none."""

    def begin(self, name: str, epoch: str, content: bytes, horizon: int) -> None:
        """Begin a list, unless there is one.

        Args:
            name: of the quota.
            epoch: of the list.
            content: what it begins with.
            horizon: for so many nanoseconds it matters what was known before.
        """

    def append(self, position: Position, change: bytes, content: bytes) -> Answer:
        """Append a change, if it is made on the last one.

        Args:
            position: on which it is made.
            change: empty to look only.
            content: what a copy holds after it, to be kept in place of older changes; or empty.
        """

    def names(self) -> list[str]:
        """The names of all quotas."""

    def drop(self, name: str) -> None:
        """Remove a quota."""

    def close(self) -> None:
        """Close the connection."""
