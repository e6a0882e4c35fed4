"""What the unified table of a lake holds, as a Prefect block: one document per lake.

The table's own log is the truth. The document is made from one version of it, whole, so that it can
be old but never be a mixture.
"""

from __future__ import annotations

from typing import Any

from prefect.blocks.core import Block
from pydantic import Field

from blocks.versioned_documents import Documents
from headrace.lake.names import location_digest
from headrace.stopping import STOP, StopEvent


class UnifiedState(Block):
    """What the unified table of a lake had taken after its last transform; for people to read."""

    _block_type_name = "Headrace Unified Table"
    _block_type_slug = "headrace-unified"
    _description = "What the unified table of a lake has taken of each product."
    _code_example = (
        "```python\nfrom blocks import UnifiedState\n\n"
        'UnifiedState.load("unified-1f3a9c2e").state["products"]["BTC-USD"]["taken"]\n```'
    )

    state: dict[str, Any] = Field(
        description="Version of the table, and per product: ids taken, rows, files."
    )


class BlockUnifiedStates:
    """The documents of `UnifiedState`.

    Args:
        lake: location of the lake.
        stop: once it is set, a save gets a single try.
    """

    def __init__(self, lake: str, *, stop: StopEvent = STOP) -> None:
        self._name = f"unified-{location_digest(lake)}"
        self._documents = Documents(UnifiedState, stop=stop)

    def save(self, state: dict[str, Any]) -> None:
        """Store the state in the place of the former one.

        Raises:
            CheckpointNotSaved: the API does not answer.
        """
        self._documents.save(
            self._name,
            {"state": state},
            what="what the unified table has taken",
            hint="The table's own log has it; the next transform saves it again",
        )

    def load(self) -> dict[str, Any] | None:
        """The state as it was saved last; None if there is none.

        Raises:
            CheckpointNotSaved: the API does not answer.
        """
        data = self._documents.load(self._name, failing="what the table has taken cannot be read")
        state = (data or {}).get("state")
        return state if isinstance(state, dict) else None

    def of_product(self, product: str) -> dict[str, Any] | None:
        """Of one product: ids taken, rows, files, and the version of the table; None if not taken.

        Raises:
            CheckpointNotSaved: the API does not answer.
        """
        state = self.load() or {}
        found = state.get("products", {}).get(product)
        return {**found, "version": state.get("version")} if found else None
