"""What a validation found, and what a run says of it."""

from __future__ import annotations

from collections import Counter
from dataclasses import asdict, dataclass, field
from typing import Any, ClassVar

from headrace.run.report import Costs, RequestReport, Row, Sheet, Status, plain

#: Broken content in the UI's table, and in the remarks.
_MOST_ROWS, _FEW = 500, 10
_ENDINGS = {
    Status.DONE: "all content runs",
    Status.PARTIAL: "content is broken",
    Status.FAILED: "nothing could be validated",
}


@dataclass(frozen=True, slots=True)
class Broken:
    """One thing that is wrong with one piece of content.

    Args:
        type: look, dashboard, lookml_dashboard, scheduled_plan or alert.
        id, title: of it; `part` is the tile or the filter of the dashboard that is meant.
        folder: its name.
        message: what is wrong.
        model, explore, field: what it is about, as far as Looker says that.
        found_by: `validation`, or `query` where the query was run.
    """

    type: str
    id: str
    message: str
    title: str = ""
    part: str = ""
    folder: str = ""
    model: str = ""
    explore: str = ""
    field: str = ""
    found_by: str = "validation"

    def described(self) -> str:
        """In one line."""
        part = f", {self.part}" if self.part else ""
        return f"{self.type} {self.id} ({self.title}{part}): {self.message}"


@dataclass(frozen=True, slots=True)
class ValidateReport(RequestReport):
    """What one validation found.

    Args:
        source: the Looker.
        broken: what is wrong.
        unsure: queries that could not be run for a reason of their Looker, in words.
        validated: what Looker's validation looked at, by kind.
        queries: that were run.
        error: why the validation was not carried out.
    """

    key: ClassVar[str] = "headrace-looker-validate"

    run: str
    status: Status
    ui_url: str | None
    source: str
    costs: Costs
    broken: tuple[Broken, ...] = ()
    unsure: tuple[str, ...] = ()
    validated: dict[str, int] = field(default_factory=dict)
    queries: int = 0
    stopped: bool = False
    error: str = ""

    @property
    def counts_by_type(self) -> Counter[str]:
        """Pieces of content that are broken, by type."""
        return Counter(type_ for type_, _ in {(each.type, each.id) for each in self.broken})

    def as_json(self) -> dict[str, Any]:
        """The JSON summary."""
        return {
            "run": self.run or None,
            "status": self.status.value,
            "ui_url": self.ui_url,
            "source": self.source,
            **self.costs.as_json(),
            "validated": self.validated,
            "queries": self.queries,
            "types": self.counts_by_type,
            "broken": [asdict(each) for each in self.broken],
            "unsure": list(self.unsure),
            "error": self.error or None,
        }

    def title(self) -> str:
        """How it ended."""
        if self.stopped:
            return "stopped on request"
        if self.status is Status.PARTIAL and not self.broken:
            return "some queries could not be run"
        return _ENDINGS.get(self.status, self.status.value)

    def totals(self) -> str:
        """How much is broken, of how much that was looked at."""
        found = ", ".join(f"{n:,} {type_}s" for type_, n in sorted(self.counts_by_type.items()))
        looked = ", ".join(f"{n:,} {kind}" for kind, n in self.validated.items() if n)
        run = f", {self.queries:,} queries run" if self.queries else ""
        return f"{found or 'nothing'} broken; {looked or 'nothing'} validated{run}"

    def table(self) -> list[Row]:
        """A row for each thing that is wrong."""
        return [
            {"type": each.type, "id": each.id, "title": plain(each.title)[:40],
             "part": plain(each.part)[:30], "what is wrong": plain(each.message)[:120]}
            for each in self.broken
        ]  # fmt: skip

    def sheets(self) -> list[Sheet]:
        """The broken content."""
        rows = [{**asdict(each), "found_by": each.found_by} for each in self.broken[:_MOST_ROWS]]
        return [Sheet("", "Content that does not run any more, and what is wrong with it", rows)]

    def remarks(self) -> list[str]:
        """What could not be found out."""
        lines = [self.error] if self.error else []
        if self.unsure:
            more = f" and {len(self.unsure) - _FEW} more" if len(self.unsure) > _FEW else ""
            lines.append(f"not run: {'; '.join(self.unsure[:_FEW])}{more}")
        return lines
