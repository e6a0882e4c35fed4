"""What tasks of an extraction return and what a run says at its end: small, typed, for JSON."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from headrace.pull.receipts import QuotaUse, Status

__all__ = ["ExtractSummary", "RangeReceipt", "Status", "TypeReceipt"]


@dataclass(frozen=True, slots=True)
class RangeReceipt:
    """What became of one chunk of pages or of items.

    Args:
        done: pages or items that came; failed: those that did not.
        failed_pages: those that are pages, by name.
        error: why, for the first of them.
    """

    done: int = 0
    failed: int = 0
    failed_pages: tuple[str, ...] = ()
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
            "items": self.items,
            "new": self.new,
            "changed": self.changed,
            "unchanged": self.unchanged,
            "returned": self.returned,
            "deleted": self.deleted,
            "requests": self.requests,
            "complete": self.complete,
            "missing": list(self.missing),
            "failures": list(self.failures),
            "error": self.error or None,
        }

    def as_row(self) -> dict[str, Any]:
        """One row of the table in the UI: short values for people."""
        return {
            "type": self.type,
            "status": self.status.value,
            "items": self.items,
            "new": self.new,
            "changed": self.changed,
            "unchanged": self.unchanged,
            "deleted": self.deleted,
            "missing ranges": ", ".join(self.missing),
            "failed items": len(self.failures),
            "error": self.error,
        }


@dataclass(frozen=True, slots=True)
class ExtractSummary:
    """What one extraction did."""

    run: str
    status: Status
    session: int
    ui_url: str | None
    vault: str
    source: str
    elapsed_s: float
    requests: int
    throttled: int
    retries: int
    logins: int
    quota: QuotaUse
    types: tuple[TypeReceipt, ...] = field(default=())
    stopped: bool = False
    resumed: bool = False
    stale: bool = False

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
            "elapsed_s": round(self.elapsed_s, 3),
            "requests": self.requests,
            "throttled": self.throttled,
            "retries": self.retries,
            "logins": self.logins,
            "quota": {
                "name": self.quota.name,
                "rates": self.quota.rates,
                "used_share": self.quota.used_share,
            },
            "checkpoint_stale": self.stale,
            "types": [receipt.as_json() for receipt in self.types],
        }
