"""Audit: is every trade in the lake, once and readable; and if asked, make it so.

Audits, repairs, fetches (as a backfill does) and audits again, mapped over the products each time.
"""

from __future__ import annotations

from prefect import flow
from prefect.states import State

from flows.audit_requests import audit_request
from flows.parameters import (
    BaseUrl,
    ChunkConcurrency,
    Deep,
    Heal,
    Lag,
    Location,
    Offline,
    Rate,
    Seconds,
    StoredProducts,
    Workers,
)
from headrace.audit.report import AuditReport
from tasks.audit_reporting import conclude_audit
from tasks.audit_runs import open_audit
from tasks.audits import audit_products, heal_products
from tasks.runs import flow_run_id


@flow(name="audit", persist_result=False, log_prints=False)
def audit(
    products: StoredProducts = [],  # noqa: B006 - the form reads it, nobody changes it
    deep: Deep = False,
    heal: Heal = False,
    offline: Offline = False,
    lag: Lag = "",
    workers: Workers = 3,
    chunk_concurrency: ChunkConcurrency = 5,
    lake: Location = "",
    base_url: BaseUrl = "",
    rate: Rate = "",
    outage_limit_s: Seconds = 1800.0,
) -> State[AuditReport]:
    """Find out whether products are complete and sound in the lake.

    Args:
        products: Product ids in the lake; empty for all that it holds.
        deep: Read every row too, and recompute order, uniqueness, counts and digests.
        heal: Repair, fetch what is missing, and audit again. Nothing is deleted that is not proven.
        offline: Send no request; compare with the newest trade in the lake.
        lag: Trades may be missing for so long, such as 15m; empty if they may not.
        workers: Products at once.
        chunk_concurrency: Chunks at once per product when healing; 0 chooses.
        lake: A folder, s3://bucket/prefix or block:NAME; empty for the configured one.
        base_url: Address of the exchange or block:NAME; empty for the configured one.
        rate: What the exchange allows, such as 10/s or 10/s,100/m, or block:NAME; none lifts it.
        outage_limit_s: Seconds to wait for an exchange that is down before a product fails.
    """
    request = audit_request(locals())
    with open_audit(flow_run_id(), request) as run:
        found = audit_products(run)
        if not request.heal:
            return conclude_audit(run, found)
        healing = heal_products(run, found)
        return conclude_audit(run, audit_products(run, found), healing)


if __name__ == "__main__":
    from headrace.cli.main import run_command

    run_command("audit")
