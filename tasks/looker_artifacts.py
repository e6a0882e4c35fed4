"""What an extraction shows in the Prefect UI: progress, a table of types, a summary."""

from __future__ import annotations

import logging

from prefect.artifacts import create_markdown_artifact, create_table_artifact

from blocks.api import API_ERRORS, require_api
from headrace.looker.extract.receipts import ExtractSummary
from headrace.looker.extract.wording import described_progress, markdown_summary
from tasks.artifacts import ProgressArtifact
from tasks.looker_runs import Extraction

log = logging.getLogger(__name__)


class ExtractArtifact(ProgressArtifact):
    """The extraction's progress bar in the UI, from the start of the `with` block to its end."""

    def __init__(self, run: Extraction) -> None:
        super().__init__(run)
        self._progress = run.progress

    def told(self) -> tuple[float, str]:
        """Percent, and a line per type."""
        items, expected = self._progress.totals()
        return 100.0 * items / expected if expected else 0.0, described_progress(self._progress)


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
