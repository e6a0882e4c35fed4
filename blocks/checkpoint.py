"""Checkpoints as Prefect blocks: one document per source and product.

The document carries our own versioned form as one field, so that Prefect's validation can never
turn an older or damaged checkpoint into "there is none"; reading and upgrading it is ours.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from prefect.blocks.core import Block
from pydantic import Field

from blocks.documents import SAVE_PATIENCE_S, Documents
from blocks.names import checkpoint_name
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
        patience_s: how long one save is tried again; once it was in vain, later ones get a single
            try until one succeeds, so that a run does not stand still every few seconds.
        stop: once it is set, a save gets a single try too.
    """

    def __init__(
        self, lake: str, *, patience_s: float = SAVE_PATIENCE_S, stop: StopEvent = STOP
    ) -> None:
        self.lake = lake
        self._documents = Documents(ProductCheckpoint, patience_s=patience_s, stop=stop)

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
