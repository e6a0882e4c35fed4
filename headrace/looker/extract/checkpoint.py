"""The checkpoint of one type's extraction: a claim about the vault, to be looked at without it.

The vault is the truth. A stale checkpoint can cause nothing; one that claims more than the vault
holds says that the vault was lost or exchanged, which the run reports.
"""

from __future__ import annotations

from datetime import datetime
from typing import Any, Protocol

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from headrace.looker.exceptions import CheckpointUnusable

#: Raised with every change that an older version would misread.
SCHEMA_VERSION = 1


class TypeCheckpoint(BaseModel):
    """What is known of one content type of one Looker in one vault.

    Args:
        vault, source, type: whose this is.
        session: of the vault, in which this was true.
        complete: whether every listing of that session was read to its end.
        items, deleted: in the vault.
        missing: ranges that were tried and not read; failed: items.
        fencing_token: of the lease under which this was written.
        run_id: the run that wrote it.
        updated_at: when, UTC.
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    schema_version: int = SCHEMA_VERSION
    vault: str
    source: str
    type: str
    session: int = Field(ge=0)
    complete: bool = False
    items: int = Field(default=0, ge=0)
    deleted: int = Field(default=0, ge=0)
    missing: tuple[str, ...] = ()
    failed: int = Field(default=0, ge=0)
    fencing_token: int = 0
    run_id: str = ""
    updated_at: datetime


def read_type_checkpoint(stored: dict[str, Any], *, vault: str, type_: str) -> TypeCheckpoint:
    """A checkpoint from its stored form.

    Raises:
        CheckpointUnusable: it is newer than this version, damaged, or another vault's.
    """
    where = f"{type_} in {vault}"
    hint = "The vault holds all that counts: delete the block, the next run writes it again"
    version = stored.get("schema_version")
    if not isinstance(version, int) or version < 1:
        raise CheckpointUnusable(f"the checkpoint of {where} says no schema version", hint=hint)
    if version > SCHEMA_VERSION:
        raise CheckpointUnusable(
            f"the checkpoint of {where} has schema version {version}, this version knows "
            f"{SCHEMA_VERSION}",
            hint="Upgrade headrace here",
        )
    try:
        checkpoint = TypeCheckpoint.model_validate(stored)
    except ValidationError as error:
        raise CheckpointUnusable(f"the checkpoint of {where} is damaged", hint=hint) from error
    if (checkpoint.vault, checkpoint.type) != (vault, type_):
        raise CheckpointUnusable(
            f"the checkpoint of {where} is that of {checkpoint.type} in {checkpoint.vault}",
            hint=hint,
        )
    return checkpoint


class TypeCheckpoints(Protocol):
    """Where the checkpoints of one vault live; the holder of the vault's lease saves."""

    def load(self, type_: str) -> TypeCheckpoint | None:
        """The last one saved, or None.

        Raises:
            CheckpointUnusable: there is one, but it cannot be used.
            CheckpointNotSaved: the store cannot be reached.
        """

    def save(self, checkpoint: TypeCheckpoint) -> None:
        """Keep it.

        Raises:
            CheckpointNotSaved: the store could not be reached.
        """
