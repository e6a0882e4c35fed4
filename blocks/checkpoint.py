"""Checkpoints as Prefect blocks: one document per source and product; names, and a list of all.

The document carries our own versioned form as one field, so that Prefect's validation can never
turn an older or damaged checkpoint into "there is none"; reading and upgrading it is ours.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any

from prefect.blocks.core import Block
from prefect.client.orchestration import SyncPrefectClient
from prefect.client.schemas.objects import BlockDocument
from prefect.exceptions import ObjectNotFound
from pydantic import Field

from blocks.versioned_documents import Documents, client_for
from headrace.lake.names import location_digest
from headrace.pull.checkpoints import Checkpoint, read_checkpoint
from headrace.pull.exceptions import CheckpointUnreadable
from headrace.stopping import STOP, StopEvent


class ProductCheckpoint(Block):
    """What is covered of one product, as of the last commit. Written by runs, read by people."""

    _block_type_name = "Headrace Checkpoint"
    _block_type_slug = "headrace-checkpoint"
    _description = "Coverage, watermark and holes of one product; written by every commit."
    _code_example = (
        "```python\nfrom blocks import ProductCheckpoint\n\n"
        'ProductCheckpoint.load("coinbase-btc-usd-1f3a9c2e").checkpoint["watermark"]\n```'
    )

    checkpoint: dict[str, Any] = Field(
        description="The checkpoint: covered ranges, holes, watermark, newest id, fencing token."
    )


class BlockCheckpoints:
    """`CheckpointStore` over block documents of the configured Prefect API.

    Args:
        lake: location of the lake that the checkpoints are about.
        stop: once it is set, a save gets a single try too.
    """

    def __init__(self, lake: str, *, stop: StopEvent = STOP) -> None:
        self.lake = lake
        self._documents = Documents(ProductCheckpoint, stop=stop)

    def read_together(self, source: str, products: Iterable[str]) -> None:
        """Have the first `load` of each product answered by one request for up to 200 of them."""
        names = [checkpoint_name(self.lake, source, product) for product in products]
        self._documents.read_together(names)

    def load(self, source: str, product: str) -> Checkpoint | None:
        """As `CheckpointStore.load`."""
        name = checkpoint_name(self.lake, source, product)
        data = self._documents.load(name, failing=f"the checkpoint of {product} cannot be read")
        if data is None:
            return None
        stored = data.get("checkpoint")
        if not isinstance(stored, dict):
            raise CheckpointUnreadable(
                f"the block {name} holds no checkpoint",
                hint=f"The lake holds all that is needed: headrace checkpoint rebuild {product}",
            )
        return read_checkpoint(stored, lake=self.lake, source=source, product=product)

    def save(self, checkpoint: Checkpoint) -> None:
        """As `CheckpointStore.save`; an API that does not answer is asked again for a minute."""
        self._documents.save(
            checkpoint_name(self.lake, checkpoint.source, checkpoint.product),
            {"checkpoint": checkpoint.model_dump(mode="json")},
            what=f"the checkpoint of {checkpoint.product}",
            hint="The data is in the lake; the next run goes on from there",
        )

    def delete(self, source: str, product: str) -> bool:
        """Remove the checkpoint, whatever it holds: True if there was one.

        Raises:
            CheckpointNotSaved: the store cannot be reached.
        """
        return self._documents.delete(
            checkpoint_name(self.lake, source, product),
            failing=f"the checkpoint of {product} cannot be removed",
        )


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


_PLAIN = re.compile(r"[A-Z0-9]+(-[A-Z0-9]+)*")
_SOURCE = re.compile(r"[a-z0-9]+")


def checkpoint_name(lake: str, source: str, product: str) -> str:
    """The one-to-one name of a product's checkpoint, such as `coinbase-btc-usd-1f3a9c2e`.

    A product id with other characters keeps a readable stem, and its exact bytes follow in hex
    behind a double dash, which no plain id has: BTC_USD is `coinbase-btc-usd--4254435f555344-...`.
    The end is a digest of the lake's location, so that two lakes have checkpoints of their own.

    Raises:
        ValueError: if the source is not lower-case letters and digits, or the product is empty.
    """
    if not _SOURCE.fullmatch(source) or not product:
        raise ValueError(f"no checkpoint name for {source!r} {product!r}")
    return f"{source}-{_product_part(product)}-{location_digest(lake)}"


def _product_part(product: str) -> str:
    if _PLAIN.fullmatch(product):
        return product.lower()
    stem = re.sub(r"[^a-z0-9]+", "-", product.lower()).strip("-")
    return f"{stem}--{product.encode().hex()}"
