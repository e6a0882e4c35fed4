"""How to reach a Looker, and the checkpoints of its extraction, as Prefect blocks."""

from __future__ import annotations

from typing import Any

from prefect.blocks.core import Block
from pydantic import Field, SecretStr

from blocks.versioned_documents import Documents
from headrace.lake.names import location_digest
from headrace.looker.client import LookerConnection
from headrace.looker.client.connection import DEFAULT_TIMEOUTS
from headrace.looker.exceptions import CheckpointUnusable
from headrace.looker.extract.report import TypeCheckpoint, read_type_checkpoint
from headrace.stopping import STOP, StopEvent
from headrace.wire.transport import Timeouts


class Looker(Block):
    """A Looker instance and an API key of it."""

    _block_type_name = "Headrace Looker"
    _block_type_slug = "headrace-looker"
    _description = "Address, API key and time limits of a Looker instance."
    _code_example = (
        "```python\nfrom blocks import Looker\n\n"
        'Looker(base_url="https://company.looker.com", client_id="...", client_secret="...")'
        '.save("company")\n```\nthen `headrace looker extract --base-url block:company`'
    )

    base_url: str = Field(description="Address of the instance, with the port of its API.")
    client_id: str = Field(description="Client id of an API key.")
    client_secret: SecretStr = Field(description="Its secret.")
    verify_ssl: bool = Field(True, description="Whether its certificate must be good.")
    connect_timeout_s: float = Field(
        DEFAULT_TIMEOUTS.connect_s, gt=0, description="Seconds to connect."
    )
    read_timeout_s: float = Field(
        DEFAULT_TIMEOUTS.read_s, gt=0, description="Seconds of silence allowed."
    )
    total_timeout_s: float = Field(
        DEFAULT_TIMEOUTS.total_s, gt=0, description="Seconds for a whole request."
    )

    def connection(self) -> LookerConnection:
        """The library's form of it.

        Raises:
            ConfigurationError: something in it cannot be used.
        """
        return LookerConnection(
            self.base_url,
            self.client_id,
            self.client_secret,
            verify_ssl=self.verify_ssl,
            timeouts=Timeouts(self.connect_timeout_s, self.read_timeout_s, self.total_timeout_s),
        )


class LookerCheckpoint(Block):
    """How far the extraction of one content type is. Written by runs, read by people."""

    _block_type_name = "Headrace Looker Checkpoint"
    _block_type_slug = "headrace-looker-checkpoint"
    _description = "Items, completeness and failures of one content type in one vault."
    _code_example = (
        "```python\nfrom blocks import LookerCheckpoint\n\n"
        'LookerCheckpoint.load("looker-dashboard-1f3a9c2e").checkpoint["items"]\n```'
    )

    checkpoint: dict[str, Any] = Field(
        description="The checkpoint: session, items, missing ranges, fencing token."
    )


class BlockTypeCheckpoints:
    """Checkpoints of one vault, as block documents of the configured Prefect API.

    Args:
        vault: location of the vault that they are about.
        stop: once it is set, a save gets a single try.
    """

    def __init__(self, vault: str, *, stop: StopEvent = STOP) -> None:
        self.vault = vault
        self._documents = Documents(LookerCheckpoint, stop=stop)

    def load(self, type_: str) -> TypeCheckpoint | None:
        """The last one saved, or None.

        Raises:
            CheckpointUnusable: there is one, but it cannot be used.
            CheckpointNotSaved: the API cannot be reached.
        """
        name = self._name(type_)
        data = self._documents.load(name, failing=f"the checkpoint of {type_} cannot be read")
        if data is None:
            return None
        stored = data.get("checkpoint")
        if not isinstance(stored, dict):
            raise CheckpointUnusable(
                f"the block {name} holds no checkpoint", hint="Delete it; the vault is what counts"
            )
        return read_type_checkpoint(stored, vault=self.vault, type_=type_)

    def save(self, checkpoint: TypeCheckpoint) -> None:
        """Keep it; an API that does not answer is asked again for a minute.

        Raises:
            CheckpointNotSaved: the API could not be reached.
        """
        self._documents.save(
            self._name(checkpoint.type),
            {"checkpoint": checkpoint.model_dump(mode="json")},
            what=f"the checkpoint of {checkpoint.type}",
            hint="The data is in the vault; the next run goes on from there",
        )

    def _name(self, type_: str) -> str:
        # Types are lower-case letters and underscores, so this is one-to-one.
        return f"looker-{type_.replace('_', '-')}-{location_digest(self.vault)}"
