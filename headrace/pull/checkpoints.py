"""The checkpoint of one product: what is covered, as far as the last commit knew.

The lake's names are the truth; a checkpoint is a claim about them that can be looked at without
listing, carries what names cannot (the newest id seen, what failed), and says who wrote it. A
stale one can cause work to be repeated, never lost, because every run starts from the lake.
"""

from __future__ import annotations

from datetime import datetime
from typing import Any, Protocol

from pydantic import BaseModel, Field, ValidationError, field_validator

from headrace.coverage import IntervalSet, Range
from headrace.pull.exceptions import CheckpointTooNew, CheckpointUnreadable

#: What each run would write again although nothing is new of the product.
_OF_THE_RUN = ("fencing_token", "run_id", "updated_at")
#: Raised with every change that an older version would misread.
SCHEMA_VERSION = 2


class Checkpoint(BaseModel, frozen=True, extra="forbid"):
    """What is known of one product of one source. All ranges are inclusive.

    Args:
        lake: the lake that this is about, as it calls itself.
        source: the exchange's name, for example `coinbase`.
        product: the canonical product id.
        covered: ranges answered for and durable in the lake.
        holes: proven-absent ranges of a page or more within them (as far as this run met them).
        failed: ranges that the last run tried and did not get.
        rows: trades stored within `covered`.
        first: the lowest trade, once it is known that none is below it; 0 before that.
        watermark: the highest id at or below which nothing is missing.
        newest: the newest id that the exchange has shown.
        ingest_from: the lowest id that ingests answer for; 0 before the first one.
        fencing_token: of the lease under which this was written.
        run_id: the run that wrote it: the last one that had something else to say.
        updated_at: when, UTC.
    """

    schema_version: int = SCHEMA_VERSION
    lake: str
    source: str
    product: str
    covered: tuple[Range, ...] = ()
    holes: tuple[Range, ...] = ()
    failed: tuple[Range, ...] = ()
    rows: int = Field(0, ge=0)
    first: int = Field(0, ge=0)
    watermark: int = Field(0, ge=0)
    newest: int = Field(0, ge=0)
    ingest_from: int = Field(0, ge=0)
    fencing_token: int = 0
    run_id: str = ""
    updated_at: datetime

    @field_validator("covered", "holes", "failed")
    @classmethod
    def _normal(cls, ranges: tuple[Range, ...]) -> tuple[Range, ...]:
        return IntervalSet.from_ranges(ranges).ranges

    def says_the_same(self, other: Checkpoint | None) -> bool:
        """Whether both say the same of the product, whichever run wrote them, and when."""
        return other is not None and self == other.model_copy(
            update={name: getattr(self, name) for name in _OF_THE_RUN}
        )

    @property
    def coverage(self) -> IntervalSet:
        """`covered` as a set."""
        return IntervalSet(self.covered)


def read_checkpoint(stored: dict[str, Any], *, lake: str, source: str, product: str) -> Checkpoint:
    """A checkpoint from its stored form, upgraded to this version if it is older.

    Raises:
        CheckpointUnreadable: it is newer than this version, damaged, or another product's.
    """
    where = f"{source}/{product} in {lake}"
    version = stored.get("schema_version")
    if not isinstance(version, int) or isinstance(version, bool) or version < 0:
        raise CheckpointUnreadable(
            f"the checkpoint of {where} says no schema version", hint=_REBUILD.format(product)
        )
    if version > SCHEMA_VERSION:
        raise CheckpointTooNew(where, found=version, known=SCHEMA_VERSION)
    for older in range(version, SCHEMA_VERSION):
        stored = _UPGRADES[older](stored)
    try:
        checkpoint = Checkpoint.model_validate(stored)
    except ValidationError as error:
        first = error.errors()[0]
        field = ".".join(str(part) for part in first["loc"])
        raise CheckpointUnreadable(
            f"the checkpoint of {where} is damaged ({field}: {first['msg']})",
            hint=_REBUILD.format(product),
        ) from error
    if (checkpoint.lake, checkpoint.source, checkpoint.product) != (lake, source, product):
        raise CheckpointUnreadable(
            f"the checkpoint of {where} is that of {checkpoint.source}/{checkpoint.product} in "
            f"{checkpoint.lake}",
            hint=_REBUILD.format(product),
        )
    return checkpoint


_REBUILD = "The lake holds all that is needed: headrace checkpoint rebuild {}"


def _from_version_0(stored: dict[str, Any]) -> dict[str, Any]:
    """Before rows and the first trade were kept; 0 means unknown for both."""
    return {**stored, "schema_version": 1, "rows": 0, "first": 0}


def _from_version_1(stored: dict[str, Any]) -> dict[str, Any]:
    """Before ingests could begin above the first trade; 0 lets the lake say where they do."""
    return {**stored, "schema_version": 2, "ingest_from": 0}


_UPGRADES = {0: _from_version_0, 1: _from_version_1}


def noted_token(checkpoints: CheckpointStore, source: str, product: str) -> int:
    """The fencing token in the last checkpoint; 0 if there is none, or none that can be used.

    Raises:
        CheckpointNotSaved: the store cannot be reached.
    """
    try:
        found = checkpoints.load(source, product)
    except CheckpointUnreadable:
        return 0
    return found.fencing_token if found else 0


class CheckpointStore(Protocol):
    """Keeps the checkpoints of one lake. Saving need not be atomic: a lease's holder saves.

    `lake` is what the lake calls itself; it stands in every checkpoint.
    """

    lake: str

    def load(self, source: str, product: str) -> Checkpoint | None:
        """The last checkpoint saved, or None if there never was one.

        Raises:
            CheckpointUnreadable: there is one, but it cannot be used. Never read as "none".
            CheckpointNotSaved: the store cannot be reached.
        """

    def save(self, checkpoint: Checkpoint) -> None:
        """Keep the checkpoint.

        Raises:
            CheckpointNotSaved: the store could not be reached.
        """
