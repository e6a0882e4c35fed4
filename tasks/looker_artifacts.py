"""What an extraction shows in the Prefect UI: progress, a table of types, a summary."""

from __future__ import annotations

import logging

from prefect.artifacts import create_markdown_artifact, create_table_artifact

from blocks.api import API_ERRORS, require_api
from headrace.looker.extract.receipts import ExtractSummary
from headrace.looker.extract.wording import described_progress, markdown_summary
from tasks.looker_runs import Extraction
from tasks.progress_artifact import ProgressArtifact

log = logging.getLogger(__name__)


def extraction_progress(run: Extraction) -> ProgressArtifact:
    """The extraction's progress bar in the UI."""
    progress = run.progress

    def told() -> tuple[float, str]:
        items, expected = progress.totals()
        return 100.0 * items / expected if expected else 0.0, described_progress(progress)

    return ProgressArtifact("headrace-progress", told)


def publish_extraction(summary: ExtractSummary) -> None:
    """The table and the summary of a run that ended; an absent API is no failure of it."""
    try:
        require_api()
        create_table_artifact(
            table=[receipt.as_row() for receipt in summary.types],
            key="headrace-looker",
            description="What of each content type is in the vault, and what is missing",
        )
        create_markdown_artifact(
            markdown=markdown_summary(summary),
            key="headrace-looker-summary",
            description="What this extraction did",
        )
    except API_ERRORS as error:
        log.warning("the summary is not shown in the UI: %s", error)
