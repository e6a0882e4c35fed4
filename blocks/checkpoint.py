"""Checkpoints as Prefect blocks: one document per source and product.

The document carries our own versioned form as one field, so that Prefect's validation can never
turn an older or damaged checkpoint into "there is none"; reading and upgrading it is ours.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any
from uuid import UUID

from prefect.blocks.core import Block
from prefect.client.orchestration import SyncPrefectClient, get_client
from prefect.client.schemas.actions import BlockDocumentCreate, BlockDocumentUpdate
from prefect.exceptions import ObjectAlreadyExists, ObjectNotFound
from pydantic import Field
from tenacity import (
    RetryCallState,
    Retrying,
    retry_if_exception_type,
    sleep_using_event,
    stop_after_delay,
    stop_any,
    stop_when_event_set,
    wait_random_exponential,
)

from blocks.api import API_ERRORS, require_api
from blocks.names import checkpoint_name
from headrace.pull.checkpoints import Checkpoint, read_checkpoint
from headrace.pull.exceptions import CheckpointNotSaved, CheckpointUnreadable
from headrace.stopping import STOP, StopEvent

log = logging.getLogger(__name__)

#: How long a save is tried again while the Prefect API does not answer.
SAVE_PATIENCE_S = 60.0


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
        self._stop = stop
        self._patience_s = patience_s
        self._gave_up = False
        self._documents: dict[str, UUID] = {}

    def load(self, source: str, product: str) -> Checkpoint | None:
        """As `CheckpointStore.load`."""
        name = checkpoint_name(self.lake, source, product)
        with client_for(f"the checkpoint of {product} cannot be read") as client:
            try:
                document = client.read_block_document_by_name(
                    name, ProductCheckpoint.get_block_type_slug()
                )
            except ObjectNotFound:
                return None
        stored = document.data.get("checkpoint")
        if not isinstance(stored, dict):
            raise CheckpointUnreadable(
                f"the block {name} holds no checkpoint",
                hint=f"The lake holds all that is needed: headrace checkpoint rebuild {product}",
            )
        return read_checkpoint(stored, lake=self.lake, source=source, product=product)

    def save(self, checkpoint: Checkpoint) -> None:
        """As `CheckpointStore.save`; an API that does not answer is asked again for a minute."""
        attempts = Retrying(
            stop=stop_any(
                stop_after_delay(0.0 if self._gave_up else self._patience_s),
                stop_when_event_set(self._stop),
            ),
            sleep=sleep_using_event(self._stop),
            wait=wait_random_exponential(multiplier=0.5, max=5.0),
            retry=retry_if_exception_type((*API_ERRORS, ObjectAlreadyExists, ObjectNotFound)),
            before_sleep=_forget_registration,
            reraise=True,
        )
        try:
            attempts(self._save, checkpoint)
        except (*API_ERRORS, ObjectAlreadyExists, ObjectNotFound) as error:
            self._gave_up = True
            raise CheckpointNotSaved(
                f"the Prefect API did not take the checkpoint of {checkpoint.product} "
                f"({_short(error)})",
                hint="The data is in the lake; the next run goes on from there",
            ) from error
        self._gave_up = False

    def delete(self, source: str, product: str) -> bool:
        """Remove the checkpoint, whatever it holds: True if there was one.

        Raises:
            CheckpointNotSaved: the store cannot be reached.
        """
        name = checkpoint_name(self.lake, source, product)
        with client_for(f"the checkpoint of {product} cannot be removed") as client:
            document_id = _document_id(client, name)
            self._documents.pop(name, None)
            if document_id is None:
                return False
            try:
                client.delete_block_document(document_id)
            except ObjectNotFound:
                return False
            return True

    def _save(self, checkpoint: Checkpoint) -> None:
        """Create or update the document.

        `Block.save` registers the block's type each time, which fails when two threads do it at
        once for the first time, and takes a third longer.
        """
        require_api()
        name = checkpoint_name(self.lake, checkpoint.source, checkpoint.product)
        type_id, schema_id = _registered()
        data = {"checkpoint": checkpoint.model_dump(mode="json")}
        with get_client(sync_client=True) as client:
            document_id = self._documents.get(name) or _document_id(client, name)
            if document_id is None:
                created = client.create_block_document(
                    BlockDocumentCreate(
                        name=name, data=data, block_type_id=type_id, block_schema_id=schema_id
                    )
                )
                document_id = created.id
            else:
                self._documents.pop(name, None)
                client.update_block_document(
                    document_id,
                    BlockDocumentUpdate(
                        block_schema_id=schema_id, data=data, merge_existing_data=False
                    ),
                )
        self._documents[name] = document_id


@contextmanager
def client_for(failing: str) -> Iterator[SyncPrefectClient]:
    """A client of the Prefect API for a `with` block.

    Args:
        failing: what cannot be done if the API does not answer, for the message.

    Raises:
        CheckpointNotSaved: it does not.
    """
    try:
        require_api()
        with get_client(sync_client=True) as client:
            yield client
    except API_ERRORS as error:
        raise CheckpointNotSaved(
            f"{failing}: the Prefect API does not answer ({_short(error)})",
            hint="headrace status tells whether the server runs",
        ) from error


_REGISTERING = threading.Lock()


def _registered() -> tuple[UUID, UUID]:
    """Ids of the block's type and schema, registered by the first thread that needs them."""
    with _REGISTERING:
        kind = ProductCheckpoint
        if kind._block_type_id is None or kind._block_schema_id is None:
            kind.register_type_and_schema(_sync=True)
        if kind._block_type_id is None or kind._block_schema_id is None:
            raise RuntimeError("Prefect registered a block type without an id")
        return kind._block_type_id, kind._block_schema_id


def _forget_registration(_attempt: RetryCallState) -> None:
    """Register anew before the next attempt: the database may be another one by then."""
    ProductCheckpoint._block_type_id = ProductCheckpoint._block_schema_id = None


def _document_id(client: SyncPrefectClient, name: str) -> UUID | None:
    slug = ProductCheckpoint.get_block_type_slug()
    try:
        return client.read_block_document_by_name(name, slug).id
    except ObjectNotFound:
        return None


def _short(error: BaseException) -> str:
    text = str(error).splitlines()
    return text[0][:160] if text else type(error).__name__
