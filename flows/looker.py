"""Looker: every piece of its content, from a Looker into a vault, with history.

    looker
    └── content            one per content type, the large ones first
        └── range          one per some pages of a listing or some items, `workers` at once

Types are mapped on the outer pool; each maps its pages and items on a pool of its own, in waves.
All requests share one quota, and one writer stores what comes.
"""

from __future__ import annotations

from prefect.client.schemas import State

from headrace.looker.extract.report import ExtractSummary, refused
from headrace.looker.extract.request import ExtractRequest
from tasks.looker import conclude_extraction, extract_types
from tasks.looker_run import open_extraction
from tasks.pipeline import pipeline


@pipeline("looker", ExtractRequest, refused=refused)
def looker(request: ExtractRequest) -> State[ExtractSummary]:
    """Bring the content of a Looker into a vault; a second run goes on where one broke off."""
    with open_extraction(request) as run:
        return conclude_extraction(run, extract_types(run))


if __name__ == "__main__":
    from headrace.cli.entry import run_command

    run_command("looker", "extract")
