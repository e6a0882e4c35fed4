"""What a run shows in the Prefect UI: progress, a coverage table, a summary."""

from __future__ import annotations

import logging
import time
from types import TracebackType
from uuid import UUID

from prefect.artifacts import (
    create_markdown_artifact,
    create_progress_artifact,
    create_table_artifact,
    update_progress_artifact,
)

from blocks.api import API_ERRORS, require_api
from headrace.pull.progress import RunProgress
from headrace.pull.receipts import Status, Summary
from headrace.pull.wording import described_progress, markdown_summary
from tasks.runs import Run

log = logging.getLogger(__name__)

#: An update costs the API some 50 ms, so the UI hears of progress this often at most.
UPDATE_INTERVAL_S = 1.0

#: After a failure the display rests; it must never slow a run down.
REST_S = 30.0


def percent_done(progress: RunProgress) -> float:
    """Pages done of those planned, in percent. A thin product is done with fewer than planned."""
    entries = list(progress.products.values())
    total = sum(max(1, entry.pages_total) for entry in entries)
    done = sum(
        max(1, entry.pages_total)
        if entry.state == Status.DONE.value
        else min(entry.pages_done, entry.pages_total)
        for entry in entries
    )
    return 100.0 * done / total if total else 0.0


class ProgressArtifact:
    """The run's progress bar in the UI, from the start of the `with` block to its end."""

    def __init__(self, run: Run) -> None:
        self._run = run
        self._id: UUID | None = None
        self._next = 0.0

    def __enter__(self) -> ProgressArtifact:
        self.tick()
        return self

    def __exit__(
        self,
        exc_type: type[BaseException] | None,
        exc: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        if exc is None and not self._resting():
            self._next = 0.0
            self.tick()

    def tick(self) -> None:
        """Bring the bar up to date, if it is time."""
        now = time.monotonic()
        if now < self._next:
            return
        self._next = now + UPDATE_INTERVAL_S
        percent, description = self.told()
        try:
            require_api()
            self._show(min(100.0, percent), description)
        except API_ERRORS as error:
            log.info("progress is not shown for a while: %s", error)
            self._next = now + REST_S

    def told(self) -> tuple[float, str]:
        """Percent done, and how far everything is in words."""
        return percent_done(self._run.progress), described_progress(self._run.progress)

    def _show(self, percent: float, description: str) -> None:
        if self._id is None:
            created = create_progress_artifact(
                progress=percent, key="headrace-progress", description=description
            )
            self._id = created if isinstance(created, UUID) else None
        else:
            update_progress_artifact(self._id, progress=percent, description=description)

    def _resting(self) -> bool:
        return self._next - time.monotonic() > UPDATE_INTERVAL_S


def publish(summary: Summary, links: str = "") -> None:
    """The coverage table and the summary of a run that ended; an absent API is no failure of it.

    Args:
        links: Markdown that the summary closes with.
    """
    try:
        require_api()
        create_table_artifact(
            table=[receipt.as_row() for receipt in summary.products],
            key="headrace-coverage",
            description="What of each product is in the lake, and what is missing",
        )
        create_markdown_artifact(
            markdown=markdown_summary(summary) + links,
            key="headrace-summary",
            description="What this run did",
        )
    except API_ERRORS as error:
        log.warning("the summary is not shown in the UI: %s", error)
