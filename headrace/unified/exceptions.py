"""What can go wrong with the unified table, each with the data that says where."""

from __future__ import annotations

from headrace.errors import HeadraceError, StateError

REBUILD_HINT = "`headrace transform --rebuild` makes the table again from the raw layer"


class TableMissing(StateError):
    """There is no unified table in the lake yet."""

    def __init__(self, place: str) -> None:
        super().__init__(
            f"there is no unified table at {place}",
            hint="`headrace transform` makes it from the raw layer",
        )
        self.place = place


class TableDamaged(StateError):
    """The log of a table, or a file that it names, cannot be read."""

    def __init__(self, place: str, reason: str) -> None:
        super().__init__(f"the table at {place} is damaged: {reason}", hint=REBUILD_HINT)
        self.place = place
        self.reason = reason


class TableTooNew(StateError):
    """A newer version of Headrace, or of the Delta protocol, wrote the table."""

    def __init__(self, place: str, reason: str) -> None:
        super().__init__(
            f"the table at {place} was written by a newer version: {reason}",
            hint=f"Upgrade headrace; or {REBUILD_HINT}, in the format of this version",
        )
        self.place = place
        self.reason = reason


class TableUnreachable(HeadraceError):
    """The table's place did not answer, or refused."""

    def __init__(self, place: str, reason: str) -> None:
        super().__init__(
            f"the table at {place} cannot be reached: {reason}",
            hint="Run again once the store answers; what was committed is kept",
        )
        self.place = place
        self.reason = reason
