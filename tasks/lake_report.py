"""The page of a lake at the end of a run, and what the Prefect API knows for it."""

from __future__ import annotations

import logging
from typing import Any

from prefect.artifacts import create_link_artifact
from prefect.client.schemas.objects import FlowRun
from prefect.client.schemas.sorting import FlowRunSort

from blocks.checkpoint import found_checkpoints
from blocks.versioned_documents import client_for
from headrace.checks.request import CheckRequest
from headrace.coverage import IntervalSet
from headrace.errors import HeadraceError
from headrace.lake import Store, look_into
from headrace.lake_report.facts import Noted, RunFacts
from headrace.lake_report.page_file import write_page
from headrace.paths import real_path
from headrace.prefect_api.reachable import API_ERRORS
from headrace.pull.request import PagedLake
from tasks.kernel import PipelineRun

log = logging.getLogger(__name__)

_RUNS_SHOWN = 15
#: Rows that the page's checks look at, which is all that they cost.
_CHECKED = "1d"


def publish_page(run: PipelineRun[Any], store: Store) -> None:
    """Write the page that a run was asked for, and leave a link to it in the UI.

    The run ends as it would without: what goes wrong is a warning.
    """
    request: PagedLake = run.request
    if not request.report or run.stop.is_set():
        return
    try:
        place = real_path(request.report)
        noted, runs = of_prefect(store.location)
        checks = CheckRequest.checked(lake=request.lake, last=_CHECKED)
        write_page(look_into(store), place, checks=checks, noted=noted, runs=runs)
        create_link_artifact(
            link=run.settings.report_url or place.as_uri(),
            link_text="the page of the lake",
            key="headrace-report",
            description=f"What is stored and what not, after this run: `{place}`",
        )
    except (HeadraceError, OSError, *API_ERRORS) as error:
        log.warning("the page of the lake was not made or not linked: %s", error)


def of_prefect(location: str) -> tuple[dict[tuple[str, str], Noted], list[RunFacts]]:
    """What checkpoints of the lake say, and the last runs.

    Raises:
        CheckpointNotSaved: the API does not answer.
    """
    noted = {
        (checkpoint.source, checkpoint.product): Noted(
            IntervalSet(checkpoint.failed), checkpoint.newest
        )
        for found in found_checkpoints()
        if (checkpoint := found.checkpoint) and checkpoint.lake == location
    }
    with client_for("the last runs cannot be listed") as client:
        runs = client.read_flow_runs(limit=_RUNS_SHOWN, sort=FlowRunSort.START_TIME_DESC)
        flows = {run.flow_id: client.read_flow(run.flow_id).name for run in runs}
    return noted, [_facts_of(run, flows[run.flow_id]) for run in runs]


def _facts_of(run: FlowRun, flow: str) -> RunFacts:
    state = run.state_name or "unknown"
    # Counts up to now for a run that is under way, such as the one that writes this page.
    seconds = run.estimated_run_time.total_seconds()
    return RunFacts(run.name, flow, state, run.start_time, seconds)
