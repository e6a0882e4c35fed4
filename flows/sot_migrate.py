"""Migrate an unsharded log: dual write, backfill, comparison, switch, and a way back."""

from __future__ import annotations

from prefect import flow
from prefect.states import State

from flows.sot_requests import (
    Action,
    MoreSource,
    Old,
    Rows,
    StoreLocation,
    sot_request,
)
from headrace.sot.reports import SotReport
from headrace.sot.requests import MigrateRequest
from tasks.runs import flow_run_id
from tasks.sot_migrating import step_taken
from tasks.sot_runs import open_sot_run
from tasks.sot_telling import conclude_sot


@flow(name="sot-migrate", persist_result=False, log_prints=False)
def sot_migrate(
    old: Old,
    store: StoreLocation = "",
    action: Action = "status",
    source: MoreSource = "",
    batch: Rows = 500,
) -> State[SotReport]:
    """Take one step of a migration; each may be repeated, and resumes where a kill left it.

    Args:
        old: The unsharded log, an SQLite file.
        store: The sharded log - a folder, cql://HOST/KEYSPACE or block:NAME; empty for the
            configured one.
        action: status, begin (write to both), write (a source), backfill, compare, switch (read
            from the new one), back (read from the old one again) or end.
        source: For write - a file, a folder, s3://bucket/prefix or - with the engine's outputs.
        batch: Records of a symbol per commit.
    """
    request = sot_request(MigrateRequest, locals())
    with open_sot_run(flow_run_id(), request, create=True, alone=request.action != "status") as run:
        return conclude_sot(run, step_taken(run))


if __name__ == "__main__":
    from headrace.cli.main import run_command

    run_command("sot migrate")
