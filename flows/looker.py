"""Looker: every piece of its content, from a Looker into a vault, with history.

    looker
    └── content            one per content type, the large ones first
        └── range          one per some pages of a listing or some items, `workers` at once

Types are mapped on the outer pool; each maps its pages and items on a pool of its own, in waves.
All requests share one quota, and one writer stores what comes.
"""

from __future__ import annotations

from prefect import flow
from prefect.states import State

from flows.looker_requests import (
    DEFAULT_WORKERS,
    BatchSize,
    ContentTypes,
    FolderIds,
    Full,
    Incremental,
    LookerUrl,
    Recursive,
    Requests,
    Resume,
    TimeLimit,
    VaultPath,
    looker_request,
)
from flows.parameters import Rate, Seconds
from headrace.looker.extract.receipts import ExtractSummary
from tasks.looker_reporting import extracted
from tasks.runs import flow_run_id


@flow(name="looker", persist_result=False, log_prints=False)
def looker(
    types: ContentTypes = [],  # noqa: B006 - the form reads it, nobody changes it
    folder_ids: FolderIds = [],  # noqa: B006 - likewise
    recursive: Recursive = False,
    incremental: Incremental = False,
    full: Full = False,
    resume: Resume = True,
    workers: Requests = DEFAULT_WORKERS,
    batch_size: BatchSize = 100,
    vault: VaultPath = "",
    base_url: LookerUrl = "",
    rate: Rate = "",
    timeout_s: TimeLimit = 0.0,
    outage_limit_s: Seconds = 1800.0,
) -> State[ExtractSummary]:
    """Bring the content of a Looker into a vault; a second run goes on where one broke off.

    Args:
        types: Content types; empty for all twelve.
        folder_ids: Only dashboards and looks in these folders; empty for everything.
        recursive: And in the folders below them.
        incremental: Fetch only bodies that have changed, as far as listings tell.
        full: Begin anew, whatever an earlier run left unfinished.
        resume: Go on with an unfinished run that was asked for the same.
        workers: Requests at once.
        batch_size: Items on a page.
        vault: The vault, a SQLite file; empty for the configured one.
        base_url: Address of the Looker or block:NAME; empty for LOOKERSDK_BASE_URL.
        rate: What the Looker allows, such as 10/s,100/m, or block:NAME; none lifts it.
        timeout_s: Seconds that one request may take; 0 for the connection's own limits.
        outage_limit_s: Seconds to wait for a Looker that is down before the run fails.
    """
    return extracted(flow_run_id(), looker_request(locals()))


if __name__ == "__main__":
    from headrace.cli.main import run_command

    run_command("looker", "extract")
