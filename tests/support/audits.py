"""A lake, its checkpoints and an exchange to audit, without Prefect and without HTTP."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path

import pyarrow as pa

from headrace.audit.auditor import run_audit
from headrace.audit.findings import Finding
from headrace.audit.healing import Healer
from headrace.audit.report import ProductAudit, Repair
from headrace.lake import Part, RawLake
from headrace.leases import LeaseLost
from headrace.manifests.lakes import LakeManifests
from headrace.pull.checkpoints import Checkpoint
from headrace.pull.rebuild import from_lake
from headrace.trades import RAW_SCHEMA
from tests.lake_samples import FETCHED_AT, trades
from tests.support.exchange import FakeClient, GivingUp

PRODUCT = "BTC-USD"
NOW = datetime(2026, 3, 2, tzinfo=UTC)


class FakeCheckpoints:
    """`CheckpointStore` in a dictionary; an exception in it is raised by `load`."""

    lake = "the-lake"

    def __init__(self) -> None:
        self.stored: dict[str, Checkpoint | Exception] = {}

    def load(self, source: str, product: str) -> Checkpoint | None:
        found = self.stored.get(product)
        if isinstance(found, Exception):
            raise found
        return found

    def save(self, checkpoint: Checkpoint) -> None:
        self.stored[checkpoint.product] = checkpoint


class FakeLease:
    """A lease that is lost after so many checks, or whose time is over after so many changes."""

    token = 7

    def __init__(self, checks: int = 1_000, changes: int = 1_000) -> None:
        self.left = checks
        self.changes_left = changes

    @property
    def lost(self) -> bool:
        return self.left < 0 or self.changes_left < 0

    def check_time(self) -> None:
        self.changes_left -= 1
        if self.changes_left < 0:
            raise LeaseLost("coinbase/BTC-USD", self.token, "its time is over")

    def check(self) -> None:
        self.left -= 1
        if self.left < 0:
            raise LeaseLost("coinbase/BTC-USD", self.token, "another run has it")


def exchange(newest: int) -> FakeClient:
    """An exchange that has the trades which a `Bench` keeps, up to `newest`."""
    return GivingUp(range(1, newest + 1), rows=rows)


def rows(ids: list[int]) -> pa.RecordBatch:
    """The rows of a page with these ids."""
    return pa.RecordBatch.from_pylist(trades(ids).to_pylist(), schema=RAW_SCHEMA)


@dataclass
class Bench:
    """What an audit looks at, and the verbs of its tests."""

    raw: RawLake
    checkpoints: FakeCheckpoints = field(default_factory=FakeCheckpoints)
    manifests: LakeManifests | None = None

    def keep(self, lo: int, hi: int, ids: Iterable[int] | None = None) -> Part:
        """Store a part; its trades are all of its ids unless others are given."""
        rows = trades(range(lo, hi + 1) if ids is None else ids)
        return self.raw.write(PRODUCT, lo, hi, rows, source="localhost", fetched_at=FETCHED_AT).part

    def path(self, part: Part) -> Path:
        return Path(self.raw.store.place(part.key))

    def names(self) -> list[str]:
        """The names of all files in the product's folder."""
        folder = Path(self.raw.store.place(f"raw/trades/exchange=coinbase/product={PRODUCT}"))
        return sorted(path.name for path in folder.iterdir())

    def ids(self) -> list[int]:
        """The ids in the lake, as our readers see them."""
        return self.raw.read(PRODUCT).column("trade_id").to_pylist()

    def save_checkpoint(self, **changes: object) -> None:
        """The checkpoint that the lake as it is calls for, with changes."""
        made = from_lake(self.raw, PRODUCT, name="the-lake", token=1, run_id="r", now=NOW)
        self.checkpoints.save(made.model_copy(update=changes))

    def audit(self, newest: int | None = None, *, deep: bool = False) -> ProductAudit:
        """Audit against an exchange whose newest id is `newest`; None: offline."""
        client = None if newest is None else exchange(newest)
        return run_audit(
            self.raw,
            PRODUCT,
            checkpoints=self.checkpoints,
            client=client,
            manifests=self.manifests,
            deep=deep,
        )

    def heal(
        self, *, client: FakeClient | None = None, deep: bool = False, **lost_after: int
    ) -> list[Repair]:
        healer = Healer(self.raw, self.checkpoints, "run", client=client, deep=deep)
        return list(healer.heal(PRODUCT, FakeLease(**lost_after), now=NOW))


def kinds(found: ProductAudit) -> list[str]:
    """The kinds of all findings."""
    return [finding.kind.value for finding in found.findings]


def only(found: ProductAudit, kind: str) -> Finding:
    """The one finding of a kind."""
    (finding,) = (finding for finding in found.findings if finding.kind == kind)
    return finding
