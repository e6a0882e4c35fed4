"""Where chains ended at the last acknowledgement, in a document kept outside the store.

A store cannot see that its own end is missing if the head went with it. `sot verify`
and `sot recover` compare this document with what the store holds.
"""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime
from typing import Annotated, Any, Self

from pydantic import BaseModel, Field, StringConstraints, ValidationError

from headrace.errors import PlaceError, StateError
from headrace.sot.chain import Position

#: Raised with every change that an older version would misread.
SCHEMA_VERSION = 1

_Unsigned = Annotated[str, StringConstraints(pattern=r"^[0-9]{1,20}$")]


class HeadsUnreadable(PlaceError, StateError):
    """The document of heads is damaged, newer than this version or another store's."""

    said = "the heads remembered of {where} cannot be used: {reason}"
    way_out = (
        "Verify the store (headrace sot verify --no-heads), then delete the block: the next write "
        "makes a new one"
    )


class KeptHead(BaseModel, frozen=True, extra="forbid"):
    """One chain's end; `next_seq` as text, since JSON numbers end at 2**53 for many readers."""

    next_seq: _Unsigned
    hash: Annotated[str, StringConstraints(pattern=r"^[0-9a-f]{16}$")]
    digest: Annotated[str, StringConstraints(pattern=r"^[0-9a-f]{64}$")]

    @classmethod
    def of(cls, position: Position) -> Self:
        """The kept form of a position."""
        return cls(
            next_seq=str(position.next_seq),
            hash=f"{position.hash:016x}",
            digest=position.digest.hex(),
        )

    @property
    def position(self) -> Position:
        """The position again."""
        return Position(int(self.next_seq), int(self.hash, 16), bytes.fromhex(self.digest))


class KeptHeads(BaseModel, frozen=True, extra="forbid"):
    """The heads of one store.

    Args:
        store: its location, as it calls itself.
        heads: by symbol.
        run_id: the run that saved them.
        updated_at: when, UTC.
    """

    schema_version: int = SCHEMA_VERSION
    store: str
    heads: dict[Annotated[str, StringConstraints(pattern=r"^[0-9]{1,10}$")], KeptHead] = Field(
        default_factory=dict
    )
    run_id: str = ""
    updated_at: datetime

    @property
    def positions(self) -> dict[int, Position]:
        """By symbol."""
        return {int(symbol_id): head.position for symbol_id, head in self.heads.items()}

    def with_heads(self, heads: Mapping[int, Position], *, run_id: str, now: datetime) -> KeptHeads:
        """The same with these on top; a head that is remembered further on stays."""
        merged = dict(self.heads)
        for symbol_id, position in heads.items():
            known = merged.get(str(symbol_id))
            if known is None or int(known.next_seq) <= position.next_seq:
                merged[str(symbol_id)] = KeptHead.of(position)
        return self.model_copy(update={"heads": merged, "run_id": run_id, "updated_at": now})


def read_heads(stored: Mapping[str, Any], *, store: str) -> KeptHeads:
    """Heads from their stored form.

    Raises:
        HeadsUnreadable: newer than this version, damaged, or another store's.
    """
    version = stored.get("schema_version")
    if not isinstance(version, int) or isinstance(version, bool) or version < 1:
        raise HeadsUnreadable(store, "it says no schema version")
    if version > SCHEMA_VERSION:
        raise HeadsUnreadable(store, f"version {version} is newer than {SCHEMA_VERSION}")
    try:
        heads = KeptHeads.model_validate(stored)
    except ValidationError as error:
        first = error.errors()[0]
        field = ".".join(str(part) for part in first["loc"])
        raise HeadsUnreadable(store, f"{field}: {first['msg']}") from error
    if heads.store != store:
        raise HeadsUnreadable(store, f"it is about {heads.store}")
    return heads
