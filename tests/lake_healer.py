"""A process that heals a lake, to be killed: what `headrace audit --heal` does before it fetches.

    python tests/lake_healer.py LOCATION STATE [S3_ENDPOINT]

STATE is a folder for leases and the checkpoint. `HEADRACE_KILL_AT` makes it die at a named point.
"""

from __future__ import annotations

import sys
from datetime import UTC, datetime
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1]))

from headrace.audit.healing import Healer
from headrace.errors import HeadraceError
from headrace.leases import open_leases
from headrace.pull.checkpoints import Checkpoint
from headrace.pull.product_leases import ProductLeases
from tests.lake_writer import PRODUCT, open_raw


class FileCheckpoints:
    """`CheckpointStore` of one product in a file that is replaced as a whole."""

    lake = "the-lake"

    def __init__(self, folder: Path) -> None:
        self._file = folder / "checkpoint.json"

    def load(self, source: str, product: str) -> Checkpoint | None:
        if not self._file.exists():
            return None
        return Checkpoint.model_validate_json(self._file.read_text())

    def save(self, checkpoint: Checkpoint) -> None:
        draft = self._file.with_suffix(".new")
        draft.write_text(checkpoint.model_dump_json())
        draft.replace(self._file)


def heal(location: str, state: str, endpoint: str | None = None) -> None:
    """Heal the product, alone."""
    checkpoints = FileCheckpoints(Path(state))
    healer = Healer(open_raw(location, endpoint), checkpoints, "healer", deep=True)
    product_leases = ProductLeases(
        open_leases(f"{state}/leases"), "coinbase", PRODUCT, checkpoints.lake
    )
    with product_leases.acquire_all("healer", ttl_s=3600) as leases:
        for step in healer.heal(PRODUCT, leases, now=datetime.now(UTC)):
            print(step.action.value, flush=True)


if __name__ == "__main__":
    try:
        heal(*sys.argv[1:])
    except HeadraceError as error:
        sys.exit(f"{type(error).__name__}: {error}")
