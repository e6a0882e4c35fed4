"""Tell the server what can be started here: deployments, their schedules, blocks.

As often as you like. A schedule that somebody switched off in the UI stays off, and one that
somebody made there stays; a schedule that has left the list goes.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Sequence
from datetime import timedelta
from importlib import import_module
from typing import Any
from uuid import UUID

from prefect import Flow
from prefect.client.orchestration import PrefectClient
from prefect.client.schemas.actions import DeploymentScheduleCreate
from prefect.client.schemas.objects import (
    ConcurrencyLimitConfig,
    ConcurrencyLimitStrategy,
    VersionInfo,
)
from prefect.client.schemas.responses import DeploymentResponse
from prefect.client.schemas.schedules import CronSchedule, IntervalSchedule
from prefect.deployments.runner import RunnerDeployment
from prefect.exceptions import ObjectNotFound
from prefect.types.entrypoint import EntrypointType

from headrace.cli.deployments.plan import Plan, PlannedDeployment, PlannedSchedule
from headrace.errors import ConfigurationError


def flow_of(planned: PlannedDeployment) -> Flow[..., Any]:
    """Import the flow of a deployment.

    Raises:
        ConfigurationError: there is no such module, or no flow of that name in it.
    """
    try:
        flow = getattr(import_module(planned.module), planned.function, None)
    except ModuleNotFoundError as error:
        raise ConfigurationError(f"{planned.entrypoint}: {error}") from error
    if not isinstance(flow, Flow):
        raise ConfigurationError(f"{planned.entrypoint}: there is no such flow")
    return flow


async def register_deployments(client: PrefectClient, plan: Plan) -> dict[UUID, str]:
    """Create or update all deployments of the plan; ids and full names (`flow/deployment`)."""
    # One at a time per flow would do; SQLite takes one writer at a time anyway, so the gain is in
    # the client's share of the work.
    ids = await asyncio.gather(*(_registered(client, each) for each in plan.deployments))
    return dict(ids)


async def _registered(client: PrefectClient, planned: PlannedDeployment) -> tuple[UUID, str]:
    deployment = await _runner_deployment(planned)
    deployment_id = await deployment.aapply(
        # Given, since it would be asked of git otherwise.
        version_info=VersionInfo(type="prefect:simple", version=planned.version)
    )
    stored = await client.read_deployment(deployment_id)
    await _reconcile(client, stored, planned.schedules)
    return deployment_id, deployment.full_name


async def _runner_deployment(planned: PlannedDeployment) -> RunnerDeployment:
    limit = planned.concurrency_limit
    deployment = await flow_of(planned).ato_deployment(
        planned.name,
        description=planned.description,
        tags=list(planned.tags),
        version=planned.version,
        parameters=planned.parameters,
        concurrency_limit=ConcurrencyLimitConfig(
            limit=limit.limit,
            collision_strategy=ConcurrencyLimitStrategy(limit.collision_strategy),
            grace_period_seconds=limit.grace_period_seconds,
        ),
        entrypoint_type=EntrypointType.MODULE_PATH,
    )
    # Said, so that a deployment that belonged to a work pool does not any more.
    deployment.work_pool_name = deployment.work_queue_name = None
    deployment.schedules = None
    return deployment


async def _reconcile(
    client: PrefectClient, stored: DeploymentResponse, planned: Sequence[PlannedSchedule]
) -> None:
    """Bring the schedules of a deployment to what is planned, and leave the switches alone."""
    wanted = {schedule.slug: schedule for schedule in planned}
    for existing in stored.schedules:
        schedule = wanted.pop(existing.slug, None) if existing.slug else None
        if existing.slug and schedule is None:
            await client.delete_deployment_schedule(stored.id, existing.id)
        elif schedule is not None and existing.schedule != (due := _times(schedule)):
            await client.update_deployment_schedule(stored.id, existing.id, schedule=due)
    fresh = [
        DeploymentScheduleCreate(
            schedule=_times(schedule), active=schedule.active, slug=schedule.slug
        )
        for schedule in wanted.values()
    ]
    if fresh:
        await client.create_deployment_schedules(stored.id, fresh)


def _times(schedule: PlannedSchedule) -> CronSchedule | IntervalSchedule:
    if schedule.cron is not None:
        return CronSchedule(cron=schedule.cron, timezone=schedule.timezone)
    assert schedule.interval is not None, "checked when the plan was read"
    return IntervalSchedule(
        interval=timedelta(seconds=schedule.interval), timezone=schedule.timezone
    )


async def withdraw(client: PrefectClient, deployments: Iterable[UUID]) -> None:
    """Delete deployments that have left the list while they were served; their runs stay."""
    for deployment_id in deployments:
        try:
            await client.delete_deployment(deployment_id)
        except ObjectNotFound:
            # Somebody was quicker.
            continue
