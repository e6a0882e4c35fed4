"""The unit of work of a migration: one step."""

from __future__ import annotations

from headrace.sot.migration.stepping import Migration
from headrace.sot.reports import SotReport
from headrace.sot.requests import MigrateRequest
from tasks.prefect_defaults import task
from tasks.sot_runs import SotRun, sot_run_of


@task(
    name="migration-step",
    task_run_name="{action}",
    description="One step from the unsharded log towards the sharded one, or back.",
)
def take_step(run: str, action: str) -> SotReport:
    """Take the step of the run's request, whose action names the task run."""
    under_way = sot_run_of(run)
    if under_way.request.action != action:
        raise LookupError(f"run {run} is about {under_way.request.action}, not {action}")
    step = Migration(under_way.request, under_way.store, under_way.stop, under_way.progress.add)
    return step.take(under_way.id)


def step_taken(run: SotRun[MigrateRequest]) -> SotReport:
    """Take it, as one task run."""
    return take_step(run.id, run.request.action)
