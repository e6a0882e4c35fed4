"""Looker: every piece of its content, from a Looker into a vault, with history.

    looker
    └── content            one per content type, the large ones first
        └── range          one per some pages of a listing or some items, `workers` at once

Types are mapped on the outer pool; each maps its pages and items on a pool of its own, in waves.
All requests share one quota, and one writer stores what comes.
"""

from __future__ import annotations

from prefect.states import State

from headrace.looker.extract.receipts import ExtractSummary
from headrace.looker.extract.request import ExtractRequest
from tasks.looker_reporting import extracted
from tasks.pipeline import pipeline
from tasks.runs import flow_run_id


@pipeline("looker", ExtractRequest)
def looker(request: ExtractRequest) -> State[ExtractSummary]:
    """Bring the content of a Looker into a vault; a second run goes on where one broke off."""
    return extracted(flow_run_id(), request)


if __name__ == "__main__":
    from headrace.cli.main import run_command

    run_command("looker", "extract")
