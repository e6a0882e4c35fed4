"""What can be wrong with a record, with a stream, with a chain and with a store.

Every class carries the symbol and the sequence (or the file and the line) it is about.
"""

from __future__ import annotations

from typing import Final

from headrace.errors import ConfigurationError, HeadraceError, NewerVersion, PlaceError, StateError


class MalformedRecord(HeadraceError):
    """Bytes or values that are no record in canonical form.

    Attributes:
        field: the field that is wrong, as in `trades[2].price`; "" if it is the whole.
        reason: what is wrong with it.
    """

    def __init__(self, field: str, reason: str, *, hint: str = "") -> None:
        super().__init__(f"{field}: {reason}" if field else reason, hint=hint)
        self.field = field
        self.reason = reason


class MalformedInput(HeadraceError):
    """A source holds something that is no record. What came before it was handed on.

    Attributes:
        source: file, object or "standard input".
        position: where in it, as in `line 17`, `row 17` or `byte 4096 (frame 17)`.
        field: the field that is wrong, or "".
        reason: what is wrong.
    """

    def __init__(
        self, source: str, position: str, field: str, reason: str, *, hint: str = ""
    ) -> None:
        what = f"{field}: {reason}" if field else reason
        super().__init__(f"{source}, {position}: {what}", hint=hint)
        self.source = source
        self.position = position
        self.field = field
        self.reason = reason


class SourceUnusable(ConfigurationError):
    """A source that cannot be opened, or has no form we know (exit code 2)."""

    def __init__(self, source: str, reason: str, *, hint: str = "") -> None:
        super().__init__(f"{source} cannot be read as a stream of records: {reason}", hint=hint)
        self.source = source
        self.reason = reason


class ChainError(HeadraceError):
    """A record that does not continue its symbol's chain; it was not stored in the chain.

    Attributes:
        symbol_id, seq: the record.
        reason: why it does not fit.
    """

    kind = "chain"

    def __init__(self, symbol_id: int, seq: int, reason: str, *, hint: str = "") -> None:
        super().__init__(f"symbol {symbol_id}, seq {seq}: {reason}", hint=hint)
        self.symbol_id = symbol_id
        self.seq = seq
        self.reason = reason


class ForkError(ChainError):
    """Other content at a sequence that the chain already has; the stored record was kept."""

    kind = "fork"


class GapError(ChainError):
    """The records before this one are missing; it is parked until they arrive.

    Attributes:
        expected: the sequence that has to come next.
    """

    kind = "gap"

    def __init__(self, symbol_id: int, seq: int, expected: int, *, hint: str = "") -> None:
        super().__init__(symbol_id, seq, f"expected seq {expected} next", hint=hint)
        self.expected = expected


class WrongLink(ChainError):
    """The sequence is next but `prev_hash` is not the hash of the record before it; parked."""

    kind = "link"


class WrongHash(ChainError):
    """The hash of a known version is not that of the content: damaged on its way here; refused."""

    kind = "hash"


#: The next step where a damage has none of its own.
RECOVERABLE: Final = "What lies before it is good and can be recovered (headrace sot recover)"


class DamagedLog(StateError):
    """The store holds something else than was written to it. It was left as it is.

    Attributes:
        where: file and byte offset, or table and key.
        symbol_id, seq: the first record that cannot be trusted, None where no record is concerned.
        last_seq: the last record of the damaged range, if it is known.
        reason: how the damage showed.
    """

    def __init__(
        self,
        where: str,
        reason: str,
        *,
        symbol_id: int | None = None,
        seq: int | None = None,
        last_seq: int | None = None,
        hint: str = "",
    ) -> None:
        record = ""
        if symbol_id is not None:
            to = f" to {last_seq}" if last_seq is not None and last_seq != seq else ""
            record = (
                f"symbol {symbol_id}, seq {seq}{to}: "
                if seq is not None
                else (f"symbol {symbol_id}: ")
            )
        super().__init__(
            f"{record}damaged in {where}: {reason}",
            hint=hint or RECOVERABLE,
        )
        self.where = where
        self.symbol_id = symbol_id
        self.seq = seq
        self.last_seq = last_seq
        self.reason = reason


class NewerLog(NewerVersion):
    """The store was written by a later version of Headrace than this one. It was not touched."""

    said = "the log in {where} has format {found}, this version knows {known}"
    way_out = "Upgrade this installation of headrace"


class StoreUnavailable(HeadraceError):
    """The store did not answer, could not write or lost its disk. Nothing more was acknowledged.

    What was under way may have been stored: read the head again before writing on.

    Attributes:
        where: folder or cluster.
        action: what was asked of it.
        reason: what it said.
    """

    def __init__(self, where: str, action: str, reason: str, *, hint: str = "") -> None:
        super().__init__(f"{action} in {where} failed: {reason}", hint=hint)
        self.where = where
        self.action = action
        self.reason = reason


class StoreMisconfigured(PlaceError, ConfigurationError):
    """A location or a setting of a store that cannot work (exit code 2)."""

    said = "{where} cannot be used as a source-of-truth store: {reason}"


class TakenOver(HeadraceError):
    """Another writer has claimed the symbol since; ours must stop writing it.

    Attributes:
        symbol_id: the symbol.
        ours, theirs: the epochs.
    """

    def __init__(self, symbol_id: int, ours: int, theirs: int) -> None:
        super().__init__(
            f"symbol {symbol_id} was taken over by another writer (epoch {theirs}, ours {ours})",
            hint="Nothing was lost: what was acknowledged is stored. Let one writer run",
        )
        self.symbol_id = symbol_id
        self.ours = ours
        self.theirs = theirs
