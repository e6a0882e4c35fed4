"""What tasks of an extraction return, what a run says at its end, and the checkpoint of a type.

A checkpoint is a claim about the vault, to be looked at without it. The vault is the truth: a stale
checkpoint can cause nothing; one that claims more than the vault holds says that the vault was lost
or exchanged, which the run reports.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, ClassVar

from pydantic import BaseModel, Field, ValidationError

from headrace.amounts import duration
from headrace.leases import LeaseHeld
from headrace.looker.exceptions import CheckpointUnusable
from headrace.looker.extract.request import ExtractRequest
from headrace.paths import real_path
from headrace.run.report import Costs, QuotaUse, RequestReport, Row, Sheet, Status, ended, plain

#: What adds up over attempts of a run, of each type.
_DONE = ("new", "changed", "unchanged", "returned", "deleted", "requests")

#: Names that one remark spells out.
_FEW = 5


@dataclass(frozen=True, slots=True)
class RangeReceipt:
    """What became of one chunk of pages or of items.

    Args:
        done: pages or items that came; failed: those that did not.
        error: why, for the first of them.
    """

    done: int = 0
    failed: int = 0
    error: str = ""


@dataclass(frozen=True, slots=True)
class TypeReceipt:
    """What became of one content type.

    Args:
        items: on the server, as far as the listings of this session have shown.
        new, changed, unchanged, returned: of those whose bodies came.
        deleted: proven to be gone, in this run.
        requests: sent about the type in this run.
        missing: ranges that were not read, by name; `failures`: items that did not come.
        complete: whether every listing was read to its end.
        resumed: whether an earlier run had begun with it.
    """

    type: str
    status: Status
    items: int = 0
    new: int = 0
    changed: int = 0
    unchanged: int = 0
    returned: int = 0
    deleted: int = 0
    requests: int = 0
    missing: tuple[str, ...] = ()
    failures: tuple[str, ...] = ()
    complete: bool = False
    resumed: bool = False
    error: str = ""

    def as_json(self) -> dict[str, Any]:
        """The form of the summary."""
        return {
            "type": self.type,
            "status": self.status.value,
            **{name: getattr(self, name) for name in ("items", *_DONE, "complete")},
            "missing": list(self.missing),
            "failures": list(self.failures),
            "error": self.error or None,
        }

    def as_row(self) -> dict[str, Any]:
        """One row of the table in the UI: short values for people."""
        counts = ("items", "new", "changed", "unchanged", "deleted")
        return {
            "type": self.type,
            "status": self.status.value,
            **{name: getattr(self, name) for name in counts},
            "missing ranges": ", ".join(self.missing),
            "failed items": len(self.failures),
            "error": self.error,
        }


@dataclass(frozen=True, slots=True)
class ExtractSummary(RequestReport):
    """What one extraction did.

    `outage` says that Looker was away for longer than the outage limit, which ended the run.
    """

    key: ClassVar[str] = "headrace-looker"
    part: ClassVar[str] = "type"
    part_counts: ClassVar[tuple[str, ...]] = _DONE

    run: str
    status: Status
    session: int
    ui_url: str | None
    vault: str
    source: str
    costs: Costs
    types: tuple[TypeReceipt, ...] = field(default=())
    stopped: bool = False
    resumed: bool = False
    stale: bool = False
    outage: str = ""

    def as_json(self) -> dict[str, Any]:
        """The JSON summary."""
        return {
            "run": self.run or None,
            "status": self.status.value,
            "session": self.session,
            "resumed": self.resumed,
            "ui_url": self.ui_url,
            "vault": self.vault,
            "source": self.source,
            **self.costs.as_json(),
            "checkpoint_stale": self.stale,
            "outage": self.outage or None,
            "types": [receipt.as_json() for receipt in self.types],
        }

    def title(self) -> str:
        """How the run ended, and which types did not come to a good end."""
        if self.stopped:
            return "stopped on request, what came is kept"
        if self.outage:
            return "ended by an outage, what came is kept"
        return ended(self.status, ((each.type, each.status) for each in self.types))

    def headline(self) -> str:
        """The outcome in one line."""
        items = sum(each.items for each in self.types)
        return (
            f"{self.title()}: {items:,} items, {self._fresh:,} of them new or changed, with "
            f"{self.requests:,} requests in {duration(self.elapsed_s)}"
        )

    def totals(self) -> str:
        """Items that came, requests, vault and session."""
        if self.status is Status.RUNNING_ELSEWHERE:
            return f"vault {self.vault}"
        where = f"vault {self.vault}, session {self.session}"
        return ", ".join([f"{self._fresh:,} new or changed", *self.costs.words(), where])

    def table(self) -> list[Row]:
        """A row per content type."""
        return [
            {
                "type": each.type,
                "status": each.status.value,
                "items": each.items,
                "new": each.new,
                "changed": each.changed,
                "same": each.unchanged,
                "gone": each.deleted,
                "failed": len(each.failures) + len(each.missing),
            }
            for each in self.types
        ]

    def sheets(self) -> list[Sheet]:
        """The content types, with what is missing of each."""
        return [
            Sheet(
                "",
                "What of each content type is in the vault, and what is missing",
                [receipt.as_row() for receipt in self.types],
            )
        ]

    def remarks(self) -> list[str]:
        """A line per type that has an error or lacks something, and what to do about it."""
        lines = [self.outage] if self.outage else []
        for each in self.types:
            if each.error and each.error != self.outage:
                lines.append(f"{each.type}: {each.error.removeprefix(f'{each.type}: ')}")
            if each.missing:
                lines.append(f"{each.type}: not read: {_some(each.missing)}")
            if each.failures:
                lines.append(f"{each.type}: did not come: {_some(each.failures)}")
        if any(each.missing or each.failures for each in self.types):
            lines.append(
                "the next run fetches only what is missing; `headrace looker failures` lists it"
            )
        if self.stale:
            lines.append(
                "the checkpoint in Prefect is older than the vault; the vault is what counts"
            )
        return lines

    def facts(self) -> list[str]:
        """Requests, quota, vault."""
        resumed = " (resumed)" if self.resumed else ""
        return [*self.costs.facts(), f"vault {plain(self.vault)}, session {self.session}{resumed}"]

    @property
    def _fresh(self) -> int:
        return sum(each.new + each.changed for each in self.types)


def _some(names: tuple[str, ...]) -> str:
    more = f" and {len(names) - _FEW} more" if len(names) > _FEW else ""
    return ", ".join(names[:_FEW]) + more


def refused(
    request: ExtractRequest, held: LeaseHeld, *, run_id: str = "", ui_url: str | None = None
) -> ExtractSummary:
    """The summary of an extraction that did not begin, because another is at its vault."""
    return ExtractSummary(
        run=run_id,
        status=Status.RUNNING_ELSEWHERE,
        session=0,
        ui_url=ui_url,
        vault=str(real_path(request.vault)),
        source=request.base_url,
        costs=Costs(0, 0, 0, 0.0, QuotaUse("", request.rate), logins=0),
        types=tuple(
            TypeReceipt(type_, Status.RUNNING_ELSEWHERE, error=str(held))
            for type_ in request.chosen
        ),
    )


#: Raised with every change that an older version would misread.
SCHEMA_VERSION = 1


class TypeCheckpoint(BaseModel, frozen=True, extra="forbid"):
    """What is known of one content type of one Looker in one vault.

    Args:
        vault, source, type: whose this is.
        session: of the vault, in which this was true.
        complete: whether every listing of that session was read to its end.
        items, deleted: in the vault.
        missing: ranges that were tried and not read; failed: items.
        fencing_token: of the lease under which this was written.
        run_id: the run that wrote it.
        updated_at: when, UTC.
    """

    schema_version: int = SCHEMA_VERSION
    vault: str
    source: str
    type: str
    session: int = Field(ge=0)
    complete: bool = False
    items: int = Field(0, ge=0)
    deleted: int = Field(0, ge=0)
    missing: tuple[str, ...] = ()
    failed: int = Field(0, ge=0)
    fencing_token: int = 0
    run_id: str = ""
    updated_at: datetime


def read_type_checkpoint(stored: dict[str, Any], *, vault: str, type_: str) -> TypeCheckpoint:
    """A checkpoint from its stored form.

    Raises:
        CheckpointUnusable: it is newer than this version, damaged, or another vault's.
    """
    where = f"{type_} in {vault}"
    hint = "The vault holds all that counts: delete the block, the next run writes it again"
    version = stored.get("schema_version")
    if not isinstance(version, int) or version < 1:
        raise CheckpointUnusable(f"the checkpoint of {where} says no schema version", hint=hint)
    if version > SCHEMA_VERSION:
        raise CheckpointUnusable(
            f"the checkpoint of {where} has schema version {version}, this version knows "
            f"{SCHEMA_VERSION}",
            hint="Upgrade headrace here",
        )
    try:
        checkpoint = TypeCheckpoint.model_validate(stored)
    except ValidationError as error:
        raise CheckpointUnusable(f"the checkpoint of {where} is damaged", hint=hint) from error
    if (checkpoint.vault, checkpoint.type) != (vault, type_):
        raise CheckpointUnusable(
            f"the checkpoint of {where} is that of {checkpoint.type} in {checkpoint.vault}",
            hint=hint,
        )
    return checkpoint
