"""What an audit says at its end: typed, ready for JSON and tables."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any

from headrace.audit.coverage import Tally
from headrace.audit.findings import Finding, Kind
from headrace.coverage import Range
from headrace.pull.receipts import ProductReceipt, Status

#: Notes that a healing clears up all the same.
_REBUILT = frozenset({Kind.CHECKPOINT_BEHIND, Kind.CHECKPOINT_ABSENT})


@dataclass(frozen=True, slots=True)
class ProductAudit:
    """What was found of one product.

    Args:
        status: done if complete and sound, partial if not, failed if it could not be audited.
        parts: files that count; without those hidden in longer ones.
        newest: the newest id known.
        asked: whether the exchange was asked for it.
        counted: its ids, added up.
        findings: what was found, what is wrong first.
        error: what kept part of the audit, or all of it, from being done.
    """

    product: str
    status: Status
    parts: int = 0
    newest: int = 0
    asked: bool = False
    counted: Tally = field(default_factory=Tally)
    findings: tuple[Finding, ...] = ()
    error: str = ""

    @property
    def wrong(self) -> tuple[Finding, ...]:
        """The findings that make the product incomplete or unsound."""
        return tuple(finding for finding in self.findings if finding.wrong)

    @property
    def to_repair(self) -> bool:
        """Whether something has to be mended before a backfill can fetch what is missing."""
        return any(
            finding.kind in _REBUILT or (finding.wrong and finding.kind is not Kind.MISSING)
            for finding in self.findings
        )

    @property
    def kinds(self) -> dict[str, int]:
        """How many findings of each kind there are."""
        return dict(Counter(finding.kind.value for finding in self.findings))

    def as_json(self) -> dict[str, Any]:
        """Plain values for `--json`; ranges are inclusive."""
        counted = self.counted
        return {
            "product": self.product,
            "status": self.status.value,
            "parts": self.parts,
            "rows": counted.rows,
            "newest": self.newest,
            "newest_from": "exchange" if self.asked else "lake",
            "watermark": counted.watermark,
            "answered": counted.answered.as_lists(),
            "missing": counted.missing.as_lists(),
            "missing_ids": counted.missing.count,
            "pending": counted.pending.as_lists(),
            "holes": counted.holes.as_lists(),
            "absent_ids": counted.absent_ids,
            "digest": counted.digest,
            "kinds": self.kinds,
            "findings": [finding.as_json() for finding in self.findings],
            "error": self.error or None,
        }


class Action(StrEnum):
    """What a healing does to a lake."""

    SET_ASIDE = "set_aside"
    SWEPT = "swept"
    SHORTENED = "shortened"
    CHECKPOINT_REBUILT = "checkpoint_rebuilt"


@dataclass(frozen=True, slots=True)
class Repair:
    """One step that was done. `key` is the file that it was done to, if it was one."""

    action: Action
    product: str
    message: str
    range: Range | None = None
    key: str = ""

    def as_json(self) -> dict[str, Any]:
        """Plain values for `--json`."""
        return {
            "action": self.action.value,
            "product": self.product,
            "message": self.message,
            "range": list(self.range) if self.range else None,
            "key": self.key or None,
        }


@dataclass(frozen=True, slots=True)
class RepairReceipt:
    """What became of the repair of one product, before anything is fetched.

    Args:
        repairs: the steps done.
        status: done, failed, or running_elsewhere if somebody else holds the product's lease.
        error: why not everything was done.
    """

    product: str
    status: Status
    repairs: tuple[Repair, ...] = ()
    error: str = ""

    @property
    def made_gaps(self) -> bool:
        """Whether ids are missing now that a part answered for before."""
        return any(step.action is Action.SET_ASIDE for step in self.repairs)


@dataclass(frozen=True, slots=True)
class Healing:
    """What was done between the two audits.

    Args:
        before: what the first audit found.
        repaired: one receipt per product that needed something.
        fetched: what the backfill of those products did.
    """

    before: tuple[ProductAudit, ...]
    repaired: tuple[RepairReceipt, ...] = ()
    fetched: tuple[ProductReceipt, ...] = ()

    def as_json(self) -> dict[str, Any]:
        """Plain values for `--json`."""
        return {
            "before": [product.as_json() for product in self.before],
            "repairs": [step.as_json() for each in self.repaired for step in each.repairs],
            "errors": {each.product: each.error for each in self.repaired if each.error},
            "fetched": [receipt.as_json() for receipt in self.fetched],
        }

    def elsewhere(self) -> set[str]:
        """The products that somebody else was at."""
        receipts: tuple[RepairReceipt | ProductReceipt, ...] = (*self.repaired, *self.fetched)
        return {each.product for each in receipts if each.status is Status.RUNNING_ELSEWHERE}


@dataclass(frozen=True, slots=True)
class AuditReport:
    """One audit: as printed, stored as artifacts and given to `--json`.

    Args:
        lake: where it is.
        deep: whether rows were read.
        products: what was found; after a healing, what is left.
        healing: what was done, if it was asked for.
        stopped: whether the audit was asked to stop.
    """

    run: str
    status: Status
    lake: str
    deep: bool
    ui_url: str | None
    elapsed_s: float
    requests: int
    products: tuple[ProductAudit, ...]
    healing: Healing | None = None
    stopped: bool = False

    def as_json(self) -> dict[str, Any]:
        """The JSON summary."""
        return {
            "run": self.run,
            "status": self.status.value,
            "ui_url": self.ui_url,
            "elapsed_s": round(self.elapsed_s, 3),
            "lake": self.lake,
            "deep": self.deep,
            "requests": self.requests,
            "products": [product.as_json() for product in self.products],
            "healing": self.healing.as_json() if self.healing else None,
        }
