"""What can go wrong with a lake, each with the data that says where.

Two families. `StoreError`: the folder or the bucket did not do what it was asked; `transient` ones
were retried until the limit, permanent ones were not retried at all. The others are about content:
a name, a part, a footer or the grid that cannot be used.
"""

from __future__ import annotations

from headrace.errors import ConfigurationError, HeadraceError, NewerVersion, PlaceError, StateError


class StoreError(HeadraceError):
    """The store failed at `action` on `place` (a full path, or s3://bucket/key)."""

    def __init__(self, action: str, place: str, reason: str, *, hint: str = "") -> None:
        super().__init__(f"{action} of {place} failed: {reason}", hint=hint)
        self.action = action
        self.place = place
        self.reason = reason


class StoreUnavailable(StoreError):
    """Transient failures did not end within the limit; the same call may succeed later."""

    def __init__(
        self, action: str, place: str, reason: str, *, attempts: int, elapsed_s: float
    ) -> None:
        super().__init__(
            action,
            place,
            f"{reason} ({attempts} attempts in {elapsed_s:.0f} s)",
            hint="Nothing was recorded as stored; run again once the store answers",
        )
        self.attempts = attempts
        self.elapsed_s = elapsed_s


class PermanentStoreError(StoreError):
    """The store will not do it however often it is asked."""


class StoreDenied(PermanentStoreError):
    """No permission, or a read-only file system. Says nothing about what exists."""


class StoreFull(PermanentStoreError):
    """No space, or a quota of the file system is used up."""


class StoreUnusable(PermanentStoreError):
    """The place is not what it should be: a file where a folder should be, no such bucket."""


class ObjectMissing(PermanentStoreError):
    """The store says that there is nothing under this name (never concluded from a 403)."""


class LakeUnusable(PlaceError, ConfigurationError):
    """The lake cannot be worked with; found before any work was spent."""

    said = "the lake {where} cannot be used: {reason}"


class InvalidName(ConfigurationError):
    """A product or exchange id that must not become a path."""

    def __init__(self, kind: str, value: str, *, allowed: str) -> None:
        super().__init__(f"{value!r} is not a usable {kind} id", hint=f"Allowed: {allowed}")
        self.kind = kind
        self.value = value


class InvalidTrades(HeadraceError):
    """Rows that must not be stored: out of range, unsorted, doubled, or a value without meaning.

    Args:
        what: what is wrong, naming the row where there is one.
        product: canonical product id, where known.
        lo: first id of the range that the rows should answer for.
        hi: last id of it.
        trade_id: the offending row, where there is one.
    """

    def __init__(
        self,
        what: str,
        *,
        product: str = "",
        lo: int | None = None,
        hi: int | None = None,
        trade_id: int | None = None,
    ) -> None:
        where = f" in {product} [{lo}, {hi}]" if product else ""
        super().__init__(f"trades refused{where}: {what}")
        self.what = what
        self.product = product
        self.lo = lo
        self.hi = hi
        self.trade_id = trade_id


class PartConflict(StateError):
    """A part exists under this name with other content."""

    def __init__(self, place: str, *, stored: str, offered: str) -> None:
        super().__init__(
            f"{place} holds other trades than those to be stored ({stored} against {offered})",
            hint="Verify the part (`headrace audit --deep`); a wrong one is replaced by --heal",
        )
        self.place = place
        self.stored = stored
        self.offered = offered


class PartUnreadable(PlaceError, StateError):
    """A file with the name of a part that is not a whole, readable part."""

    said = "{where} is not a readable part: {reason}"
    way_out = "Fetch its range again with `headrace audit --heal`, which replaces the file"


class FooterTooNew(NewerVersion):
    """A part was written by a newer version of the layout than this one knows."""

    said = "{where} has schema version {found}; this version reads up to {known}"


class GridDamaged(PlaceError, StateError):
    """The file that records the grid cannot be read."""

    said = "{where} does not hold a grid: {reason}"


class MergeRefused(StateError):
    """Pieces that cannot be proven to become one part; none of them was touched."""

    def __init__(self, product: str, lo: int, hi: int, reason: str) -> None:
        super().__init__(
            f"parts of {product} in [{lo}, {hi}] were not merged: {reason}",
            hint="Look at them with `headrace audit --deep`",
        )
        self.product = product
        self.lo = lo
        self.hi = hi
        self.reason = reason
