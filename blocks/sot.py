"""Where a source-of-truth log is, and where its chains ended at the last commit."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

from prefect.blocks.core import Block
from pydantic import Field, SecretStr

from blocks.versioned_documents import Documents
from headrace.extras import import_with
from headrace.lake.names import location_digest
from headrace.sot.acknowledged_heads import HeadsUnreadable, KeptHeads, read_heads
from headrace.sot.chain import Position
from headrace.sot.opening import CQL_SCHEME, open_store
from headrace.sot.store import SotStore
from headrace.stopping import STOP, StopEvent


class SotStoreBlock(Block):
    """A folder, or a keyspace of a Cassandra or ScyllaDB cluster."""

    _block_type_name = "Headrace SOT Store"
    _block_type_slug = "headrace-sot-store"
    _description = "A source-of-truth log: a local folder, or cql://HOST/KEYSPACE."
    _code_example = (
        "```python\nfrom blocks import SotStoreBlock\n\n"
        'SotStoreBlock(location="cql://10.0.0.1,10.0.0.2/sot?replication=3", username="headrace", '
        'password="...").save("ours")\n```\nthen `headrace sot write in.sot --store block:ours`'
    )

    location: str = Field(description="A folder, or cql://HOST[,HOST...][:PORT]/KEYSPACE.")
    username: str | None = Field(None, description="For a cluster that asks for one.")
    password: SecretStr | None = Field(None, description="Its password.")

    def open(self, *, create: bool = True) -> SotStore:
        """The store.

        Args:
            create: make it if there is none.

        Raises:
            StoreMisconfigured: it cannot work, or is not there.
            StoreUnavailable: it does not answer.
        """
        if self.location.startswith(CQL_SCHEME) and self.username:
            open_cql = import_with("cql", "headrace.sot.cql").open_cql
            given: dict[str, Any] = {"username": self.username, "password": self.password}
            store: SotStore = open_cql(self.location, create=create, **given)
            return store
        return open_store(self.location, create=create)


class SotHeads(Block):
    """Where the chains of one store end, as of the last commit. Written by runs."""

    _block_type_name = "Headrace SOT Heads"
    _block_type_slug = "headrace-sot-heads"
    _description = "Sequence, hash and digest at the end of every chain; written by every write."
    _code_example = (
        "```python\nfrom blocks import SotHeads\n\n"
        'SotHeads.load("sot-heads-1f3a9c2e").heads["heads"]\n```'
    )

    heads: dict[str, Any] = Field(description="Heads by symbol, and the run that saved them.")


class BlockHeads:
    """The heads of one store, as a block document of the configured Prefect API.

    Args:
        store: location of the store that they are about.
        stop: once it is set, a save gets a single try.
    """

    def __init__(self, store: str, *, stop: StopEvent = STOP) -> None:
        self.store = store
        self._documents = Documents(SotHeads, stop=stop)

    @property
    def name(self) -> str:
        """The document's name: one per store."""
        return f"sot-heads-{location_digest(self.store)}"

    def load(self) -> KeptHeads | None:
        """What was saved last, None if nothing ever was.

        Raises:
            HeadsUnreadable: it cannot be used. Never read as "nothing".
            CheckpointNotSaved: the API cannot be reached.
        """
        data = self._documents.load(
            self.name, failing=f"the heads remembered of {self.store} cannot be read"
        )
        if data is None:
            return None
        stored = data.get("heads")
        if not isinstance(stored, dict):
            raise HeadsUnreadable(self.store, f"the block {self.name} holds none")
        return read_heads(stored, store=self.store)

    def save(self, heads: KeptHeads) -> None:
        """Keep them; an API that does not answer is asked again for a minute."""
        self._documents.save(
            self.name,
            {"heads": heads.model_dump(mode="json")},
            what=f"the heads of {self.store}",
            hint="The records are in the store; the next write saves its heads",
        )

    def note(self, heads: dict[int, Position], *, run_id: str) -> None:
        """Save these on top of what is remembered."""
        now = datetime.now(UTC)
        kept = self.load() or KeptHeads(store=self.store, updated_at=now)
        self.save(kept.with_heads(heads, run_id=run_id, now=now))
