"""What an audit says at its end: typed, ready for JSON and tables."""

from __future__ import annotations

from collections import Counter
from dataclasses import asdict, dataclass, field
from enum import StrEnum
from typing import Any, ClassVar

from headrace.amounts import counted, duration
from headrace.audit.coverage import Tally
from headrace.audit.findings import Finding, Kind
from headrace.audit.sign_receipts import Signed
from headrace.coverage import Range
from headrace.lake.answer_evidence import Answer
from headrace.manifests.anchored import AnchorReport
from headrace.pull.report import ProductReceipt
from headrace.run.report import (
    Report,
    Row,
    Sheet,
    Status,
    ended,
    error_lines,
    markdown_table,
    plain,
)

_ENDINGS = {
    Status.DONE: "complete and sound",
    Status.PARTIAL: "something is missing or wrong",
    Status.FAILED: "the audit failed",
    Status.RUNNING_ELSEWHERE: "already running elsewhere",
}
#: What of an audit that did not ask the exchange follows its ending, where all is well.
OFFLINE = "as far as stored; the exchange was not asked"
#: What is said of an anchor without a head, before an audit that signs puts one there.
NO_HEAD = "it holds no head of the lake, so nothing is proven by it"
#: Findings of one product that are spelled out for people; `--json` has them all.
_SHOWN = 20
#: Findings in the UI's table.
_MOST_FINDINGS = 500

#: Notes that a healing clears up all the same.
_REBUILT = frozenset({Kind.CHECKPOINT_BEHIND, Kind.CHECKPOINT_ABSENT})
#: What is wrong and needs no repair before a backfill, or has none but a copy of the lake.
_NOT_REPAIRED = frozenset({Kind.MISSING, Kind.LOST, Kind.CHANGED, Kind.MANIFEST_UNREADABLE})


@dataclass(frozen=True, slots=True)
class ProductAudit:
    """What was found of one product.

    Args:
        status: done if complete and sound, partial if not, failed if it could not be audited.
        parts: files that count; without those hidden in longer ones.
        newest: the newest id known.
        asked: whether the exchange was asked for it.
        newest_answer: the newest page that it showed, if it was asked in this look.
        counted: its ids, added up.
        findings: what was found, what is wrong first.
        error: what kept part of the audit, or all of it, from being done.
    """

    product: str
    status: Status
    parts: int = 0
    newest: int = 0
    asked: bool = False
    newest_answer: Answer | None = None
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
            finding.kind in _REBUILT or (finding.wrong and finding.kind not in _NOT_REPAIRED)
            for finding in self.findings
        )

    @property
    def kinds(self) -> dict[str, int]:
        """How many findings of each kind there are."""
        return dict(Counter(finding.kind.value for finding in self.findings))

    def as_row(self) -> Row:
        """One row for people; `missing` and `absent` (at the exchange) count ids."""
        counted = self.counted
        return {
            "product": self.product,
            "status": self.status.value,
            "parts": self.parts,
            "trades": counted.rows,
            "watermark": counted.watermark,
            "newest": self.newest,
            "missing": counted.missing.count,
            "absent": counted.absent_ids,
            "wrong": len(self.wrong),
            "notes": len(self.findings) - len(self.wrong),
        }

    def lines(self) -> list[str]:
        """What was found, a line each; what is wrong comes first."""
        lines = [finding.described() for finding in self.findings[:_SHOWN]]
        left = len(self.findings) - _SHOWN
        if left > 0:
            lines.append(
                f"{self.product}: and {counted(left, 'more finding')}; --json has them all"
            )
        return lines

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
    ASKED_AGAIN = "asked_again"
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
        status: done, failed, or running_elsewhere if another run holds the product's lease.
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

    def lines(self) -> list[str]:
        """What was done, a line per step."""
        lines = [
            f"{step.product}: {step.action.value.replace('_', ' ')}: {step.message}"
            for receipt in self.repaired
            for step in receipt.repairs
        ]
        lines += error_lines((each.product, each.error) for each in self.repaired)
        for fetched in self.fetched:
            reason = f" ({fetched.error})" if fetched.error else ""
            lines.append(f"{fetched.product}: fetched {counted(fetched.new_rows, 'trade')}{reason}")
        return lines

    def elsewhere(self) -> set[str]:
        """The products that another run worked on."""
        receipts: tuple[RepairReceipt | ProductReceipt, ...] = (*self.repaired, *self.fetched)
        return {each.product for each in receipts if each.status is Status.RUNNING_ELSEWHERE}


@dataclass(frozen=True, slots=True)
class AuditReport(Report):
    """One audit: as printed, stored as artifacts and given to `--json`.

    Args:
        lake: where it is.
        deep: whether rows were read.
        products: what was found; after a healing, what is left.
        healing: what was done, if it was asked for.
        anchors: what holding the lake against each anchor has shown, before anything was signed.
        signed: what became of the manifests, if they were asked for.
        stopped: whether the audit was asked to stop.
        chosen: how its products were named; empty where their ids were given.
        offline: whether the exchange was not to be asked; what it has and the lake never had is
            not missing then.
    """

    key: ClassVar[str] = "headrace-audit"

    run: str
    status: Status
    lake: str
    deep: bool
    ui_url: str | None
    elapsed_s: float
    requests: int
    products: tuple[ProductAudit, ...]
    healing: Healing | None = None
    anchors: tuple[AnchorReport, ...] = ()
    signed: Signed | None = None
    stopped: bool = False
    chosen: str = ""
    offline: bool = False

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
            **({"chosen": self.chosen} if self.chosen else {}),
            "products": [product.as_json() for product in self.products],
            "healing": self.healing.as_json() if self.healing else None,
            **({"anchors": [asdict(each) for each in self.anchors]} if self.anchors else {}),
            **({"signed": self.signed.as_json()} if self.signed else {}),
        }

    def title(self) -> str:
        """How the audit ended, and which products are not as they should be."""
        if self.stopped:
            return "stopped on request, not everything was looked at"
        ending = ended(
            self.status, ((each.product, each.status) for each in self.products), _ENDINGS
        )
        return f"{ending} {OFFLINE}" if self.offline and self.status is Status.DONE else ending

    def totals(self) -> str:
        """Parts, trades, requests and time."""
        parts = sum(each.parts for each in self.products)
        rows = sum(each.counted.rows for each in self.products)
        return (
            f"{'rows' if self.deep else 'footers'} of {counted(parts, 'part')} with "
            f"{counted(rows, 'trade')}, "
            f"{counted(self.requests, 'request')}, {duration(self.elapsed_s)}"
        )

    def table(self) -> list[Row]:
        """A row per product, without what only the UI has room for."""
        rows = [each.as_row() for each in self.products]
        for row in rows:
            del row["parts"], row["absent"]
        return rows

    def sheets(self) -> list[Sheet]:
        """The products, and what was found of them, what is wrong first."""
        findings = [finding for each in self.products for finding in each.findings]
        findings.sort(key=lambda finding: not finding.wrong)
        return [
            Sheet(
                "",
                "What of each product is in the lake, and whether it is sound",
                [each.as_row() for each in self.products],
            ),
            Sheet(
                "findings",
                f"{counted(len(findings), 'finding')}, what is wrong first",
                [finding.as_row() for finding in findings[:_MOST_FINDINGS]],
            ),
        ]

    def remarks(self) -> list[str]:
        """What was done, then what was found, a line each."""
        done = self.healing.lines() if self.healing else []
        return [*done, *self._found(), *(self.signed.lines() if self.signed else [])]

    def _found(self) -> list[str]:
        errors = error_lines((each.product, each.error) for each in self.products)
        fits = ("head of the lake fits", "heads of the lake fit")
        anchors = [
            f"anchor {each.where}: "
            + (each.problem or (counted(each.heads, *fits) if each.heads else NO_HEAD))
            for each in self.anchors
        ]
        return [*errors, *anchors, *(line for each in self.products for line in each.lines())]

    def markdown(self) -> str:
        """The audit as an artifact; after a healing, with what was before."""
        lines = [f"## {plain(self.headline())}", "", f"- lake `{self.lake}`"]
        lines += [f"- products by {plain(self.chosen)}", ""] if self.chosen else [""]
        if self.healing is not None:
            before = [each.as_row() for each in self.healing.before]
            lines += ["### Before", "", *markdown_table(before), "", "### Done", ""]
            lines += [f"- {plain(line)}" for line in self.healing.lines()] or ["- nothing"]
            lines += ["", "### After", ""]
        lines += [*markdown_table([each.as_row() for each in self.products]), ""]
        lines += [f"- {plain(line)}" for line in self._found()]
        if self.signed is not None:
            lines += ["", *(f"- {plain(line)}" for line in self.signed.lines())]
        return "\n".join(lines)
