"""Migrate an unsharded log: dual write, backfill, comparison, switch, and a way back."""

from __future__ import annotations

from prefect.client.schemas import State

from headrace.sot.reports import SotReport, refused
from headrace.sot.requests import MigrateRequest
from tasks.pipeline import pipeline
from tasks.sot import conclude_sot, take_step
from tasks.sot_run import open_sot_run


@pipeline("sot-migrate", MigrateRequest, refused=refused)
def sot_migrate(request: MigrateRequest) -> State[SotReport]:
    """Take one step of a migration; each may be repeated, and resumes where a kill left it."""
    with open_sot_run(request, create=True, alone=request.action != "status") as run:
        return conclude_sot(run, take_step(run.id, request.action))


if __name__ == "__main__":
    from headrace.cli.entry import run_command

    run_command("sot", "migrate")
