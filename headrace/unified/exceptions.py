"""What can go wrong with the unified table, each with the data that says where."""

from __future__ import annotations

import re

from headrace.errors import HeadraceError, PlaceError, StateError
from headrace.lake.exceptions import StoreDenied, StoreFull

REBUILD_HINT = "`headrace transform --rebuild` makes the table again from the raw layer"


class TableMissing(PlaceError, StateError):
    """There is no unified table in the lake yet."""

    said = "there is no unified table at {where}"
    way_out = "`headrace transform` makes it from the raw layer"


class TableDamaged(PlaceError, StateError):
    """The log of a table, or a file that it names, cannot be read."""

    said = "the table at {where} is damaged: {reason}"
    way_out = REBUILD_HINT


class TableTooNew(PlaceError, StateError):
    """A newer version of Headrace, or of the Delta protocol, wrote the table."""

    said = "the table at {where} was written by a newer version: {reason}"
    way_out = f"Upgrade headrace; or {REBUILD_HINT}, in the format of this version"


class TableUnreachable(PlaceError):
    """The table's place did not answer, or refused."""

    said = "the table at {where} cannot be reached: {reason}"
    way_out = "Run again once the store answers; what was committed is kept"


class TableBusy(HeadraceError):
    """Other runs committed to the same products each time that this one tried."""

    def __init__(self, place: str, attempts: int) -> None:
        super().__init__(
            f"the table at {place} was changed by others {attempts} times in a row",
            hint="Run again once the other run has ended",
        )
        self.place = place
        self.attempts = attempts


class RowsDiffer(StateError):
    """What was written does not hold the rows that it was made from; nothing was committed."""

    def __init__(self, what: str, *, expected: str, found: str, hint: str) -> None:
        super().__init__(f"{what}: {found}, expected {expected}", hint=hint)
        self.expected = expected
        self.found = found


_COLOURS = re.compile(r"\x1b\[[0-9;]*m")
_FRAME = re.compile(r"\s*\d+: [<\w]|\s+at |start_thread|clone")
#: What delta-rs says of a protocol that it does not know.
_NEWER = re.compile(r"unsupported|is not supported", re.IGNORECASE)
#: What the operating system and object_store say of a place that is full, refuses, or is silent.
_FULL = re.compile(r"No space left on device|Disk quota exceeded|File too large|os error 28")
_DENIED = re.compile(
    r"Permission denied|Read-only file system|Forbidden|AccessDenied|Unauthorized|"
    r"InvalidAccessKeyId|SignatureDoesNotMatch|ExpiredToken|credentials"
)
_CERTIFICATE = re.compile(r"invalid peer certificate")
_UNREACHABLE = re.compile(
    r"error sending request|connection|timed out|timeout|after \d+ retries|NoSuchBucket|"
    r"status code: 5\d\d",
    re.IGNORECASE,
)


def _reason(text: str) -> str:
    """The outermost and the innermost of the causes that delta-rs lists, without its own stack."""
    plain = _COLOURS.sub("", text).replace("\u21b3", "")
    lines = [line.strip() for line in plain.splitlines() if not _FRAME.match(line)]
    causes = list(dict.fromkeys(line for line in lines if line))
    return ": ".join(cause[:200] for cause in dict.fromkeys([*causes[:1], *causes[-2:]]))


def of_delta(place: str, error: Exception) -> HeadraceError:
    """The error of ours that an error of delta-rs about the table at `place` means."""
    text = str(error)
    reason = _reason(text) or type(error).__name__
    if _FULL.search(text):
        return StoreFull("writing", place, reason, hint="Free some space and run again")
    if _DENIED.search(text):
        return StoreDenied("use", place, reason, hint="Correct the credentials or permissions")
    if _CERTIFICATE.search(text):
        return StoreDenied("use", place, reason, hint="Name the authority's file in SSL_CERT_FILE")
    if _UNREACHABLE.search(text):
        return TableUnreachable(place, reason)
    if _NEWER.search(text):
        return TableTooNew(place, reason)
    return TableDamaged(place, reason)
