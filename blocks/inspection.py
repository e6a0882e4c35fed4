"""Every checkpoint that the Prefect API keeps, of whatever lake, readable or not."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from prefect.client.orchestration import SyncPrefectClient
from prefect.client.schemas.objects import BlockDocument
from prefect.exceptions import ObjectNotFound

from blocks.checkpoint import ProductCheckpoint
from blocks.documents import client_for
from blocks.names import checkpoint_name
from headrace.pull.checkpoints import Checkpoint, read_checkpoint
from headrace.pull.exceptions import CheckpointUnreadable

_PAGE = 200


@dataclass(frozen=True, slots=True)
class FoundCheckpoint:
    """A checkpoint's block: its name, and what it holds or why that cannot be used."""

    block: str
    checkpoint: Checkpoint | None
    problem: str = ""


def found_checkpoints() -> list[FoundCheckpoint]:
    """All checkpoints of the configured Prefect API, by the names of their blocks.

    Raises:
        CheckpointNotSaved: the API does not answer.
    """
    with client_for("the checkpoints cannot be listed") as client:
        documents = list(_documents(client))
    return sorted((_found(document) for document in documents), key=lambda found: found.block)


def _documents(client: SyncPrefectClient) -> Iterator[BlockDocument]:
    slug = ProductCheckpoint.get_block_type_slug()
    offset = 0
    while True:
        try:
            page = client.read_block_documents_by_type(slug, offset=offset, limit=_PAGE)
        except ObjectNotFound:
            # The type is registered with the first checkpoint.
            return
        yield from page
        offset += len(page)
        if len(page) < _PAGE:
            return


def _found(document: BlockDocument) -> FoundCheckpoint:
    block = document.name or str(document.id)
    stored = document.data.get("checkpoint")
    try:
        return FoundCheckpoint(block, _read(block, stored))
    except CheckpointUnreadable as error:
        return FoundCheckpoint(block, None, str(error))


def _read(block: str, stored: Any) -> Checkpoint:
    """What the block holds, if that says itself whose it is and the block's name agrees."""
    if isinstance(stored, dict):
        said = [stored.get(name) for name in ("lake", "source", "product")]
        if all(isinstance(part, str) for part in said):
            lake, source, product = (str(part) for part in said)
            checkpoint = read_checkpoint(stored, lake=lake, source=source, product=product)
            if _name_of(checkpoint) == block:
                return checkpoint
    raise CheckpointUnreadable(
        f"the block {block} does not hold the checkpoint that its name promises",
        hint="headrace checkpoint rebuild PRODUCT rebuilds it from the lake",
    )


def _name_of(checkpoint: Checkpoint) -> str:
    try:
        return checkpoint_name(checkpoint.lake, checkpoint.source, checkpoint.product)
    except ValueError:
        return ""
