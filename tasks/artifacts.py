"""What a run shows in the Prefect UI: progress, a coverage table, a summary."""

from __future__ import annotations

import logging

from prefect.artifacts import create_markdown_artifact, create_table_artifact

from blocks.api import API_ERRORS, require_api
from headrace.pull.progress import RunProgress
from headrace.pull.receipts import Status, Summary
from headrace.pull.wording import described_progress, markdown_summary
from tasks.progress_artifact import ProgressArtifact
from tasks.runs import Run

log = logging.getLogger(__name__)


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


def pull_progress(run: Run) -> ProgressArtifact:
    """The run's progress bar in the UI."""
    progress = run.progress
    return ProgressArtifact(
        "headrace-progress", lambda: (percent_done(progress), described_progress(progress))
    )


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
