"""Runs that Prefect believes to be at work, and whose process is gone.

A runner that is killed cannot say what became of its runs: they stay Running for ever, and hold the
only slot of their deployment until its lease is over. When a runner begins, none of its kind is
left (see `supervisor`), so that what still counts as running is not.
"""

from __future__ import annotations

from collections.abc import Collection
from uuid import UUID

from prefect.client.orchestration import PrefectClient
from prefect.client.schemas.filters import (
    DeploymentFilter,
    DeploymentFilterId,
    FlowRunFilter,
    FlowRunFilterState,
    FlowRunFilterStateType,
)
from prefect.client.schemas.objects import StateType
from prefect.states import Crashed

_AT_WORK = [StateType.PENDING, StateType.RUNNING, StateType.CANCELLING]
_MESSAGE = (
    "The process that ran it is gone (killed, or out of memory); what it had stored is in the "
    "lake, and the next run goes on from there"
)
_PAGE = 200


async def conclude_dead_runs(client: PrefectClient, deployments: Collection[UUID]) -> list[UUID]:
    """Call the runs of a former runner crashed; ids of those that were.

    Runs that a work pool gave to a worker are not ours to judge.
    """
    if not deployments:
        return []
    runs = await client.read_flow_runs(
        flow_run_filter=FlowRunFilter(
            state=FlowRunFilterState(type=FlowRunFilterStateType(any_=_AT_WORK))
        ),
        deployment_filter=DeploymentFilter(id=DeploymentFilterId(any_=list(deployments))),
        limit=_PAGE,
    )
    dead = [run for run in runs if run.work_queue_name is None]
    for run in dead:
        await client.set_flow_run_state(run.id, Crashed(message=_MESSAGE), force=True)
    return [run.id for run in dead]
