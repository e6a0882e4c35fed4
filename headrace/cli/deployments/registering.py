"""Register with the server what can be started here: deployments and their schedules.

As often as you like, and with three requests where nothing has changed. A new schedule is off until
it is switched on (`headrace up --schedules`, or in the UI), and switches stay as they are; so does
a schedule that was made in the UI. A schedule that has left the list is deleted.

A runner that was killed cannot report what became of its runs: they stay Running for ever, and hold
the only slot of their deployment until its lease is over. When a runner begins, none of its kind is
left (see `supervisor`), so that what still counts as running is not.
"""

from __future__ import annotations

import asyncio
from collections.abc import Collection, Iterable, Sequence
from importlib import import_module
from typing import Any
from uuid import UUID

from prefect import Flow
from prefect.automations import AutomationCore
from prefect.client.orchestration import PrefectClient
from prefect.client.schemas.actions import DeploymentScheduleCreate
from prefect.client.schemas.filters import (
    DeploymentFilter,
    DeploymentFilterId,
    FlowFilter,
    FlowFilterName,
    FlowRunFilter,
    FlowRunFilterState,
    FlowRunFilterStateType,
)
from prefect.client.schemas.objects import (
    ConcurrencyLimitConfig,
    ConcurrencyLimitStrategy,
    DeploymentSchedule,
    VersionInfo,
)
from prefect.client.schemas.responses import DeploymentResponse
from prefect.client.schemas.schedules import CronSchedule, IntervalSchedule, RRuleSchedule
from prefect.deployments.runner import RunnerDeployment
from prefect.exceptions import ObjectNotFound
from prefect.states import Crashed
from prefect.types.entrypoint import EntrypointType
from pydantic import ValidationError

from headrace.cli.deployments.plan import Plan, PlannedDeployment, PlannedSchedule
from headrace.cli.deployments.triggers import automations_of, reconcile_triggers
from headrace.errors import ConfigurationError
from headrace.extras import ExtraMissing
from headrace.prefect_api.dead_runs import AT_WORK, MESSAGE
from headrace.project import PACKAGES

Times = CronSchedule | IntervalSchedule | RRuleSchedule

_PAGE = 200


def flow_of(planned: PlannedDeployment) -> Flow[..., Any]:
    """Import the flow of a deployment.

    Raises:
        ConfigurationError: there is no such module, or no flow of that name in it.
    """
    try:
        flow = getattr(import_module(planned.module), planned.function, None)
    except ModuleNotFoundError as error:
        raise ConfigurationError(
            f"{planned.entrypoint}: {error}", hint=_hint_about(planned, error)
        ) from error
    if not isinstance(flow, Flow):
        raise ConfigurationError(f"{planned.entrypoint}: there is no such flow")
    return flow


def _hint_about(planned: PlannedDeployment, error: ModuleNotFoundError) -> str:
    package = planned.module.partition(".")[0]
    if package in PACKAGES and error.name == planned.module:
        return (
            f"If you mean Headrace's own flow: the folder of the list has a package {package!r}, "
            "which is found first; keep the list in a folder without it"
        )
    return ""


def without_missing_extras(plan: Plan) -> tuple[Plan, list[str]]:
    """The plan without the deployments whose client is not installed, and why each is left out.

    Raises:
        ConfigurationError: as `flow_of`.
    """
    kept: list[PlannedDeployment] = []
    left_out: list[str] = []
    for each in plan.deployments:
        try:
            flow_of(each)
        except ExtraMissing as error:
            left_out.append(f"{each.entrypoint} {each.name} is not served: {error}")
        else:
            kept.append(each)
    return plan.model_copy(update={"deployments": tuple(kept)}), left_out


async def register_deployments(client: PrefectClient, plan: Plan) -> dict[UUID, str]:
    """Create or update all deployments of the plan; ids and full names (`flow/deployment`)."""
    wanted = [(each, await runner_deployment(each)) for each in plan.deployments]
    stored = await _stored(client, {str(deployment.flow_name) for _, deployment in wanted})
    # One after the other: SQLite has one writer, and those that wait for it sleep. All at once,
    # eight new deployments took 13 s on an idle machine, 12 of them asleep.
    served: dict[UUID, str] = {}
    triggers: dict[UUID, list[AutomationCore]] = {}
    for planned, deployment in wanted:
        name = deployment.full_name
        deployment_id = await _registered(client, planned, deployment, stored.get(name))
        served[deployment_id] = name
        triggers[deployment_id] = automations_of(planned, deployment_id)
    await reconcile_triggers(client, triggers)
    return served


async def runner_deployment(planned: PlannedDeployment) -> RunnerDeployment:
    """The deployment in Prefect's own terms, without its schedules."""
    limit = planned.concurrency_limit
    options = None
    if limit is not None:
        options = ConcurrencyLimitConfig(
            limit=limit.limit,
            collision_strategy=ConcurrencyLimitStrategy(limit.collision_strategy),
            grace_period_seconds=limit.grace_period_seconds,
        )
    deployment = await flow_of(planned).ato_deployment(
        planned.name,
        description=planned.description,
        tags=list(planned.tags),
        version=planned.version,
        parameters=planned.parameters,
        concurrency_limit=options,
        entrypoint_type=EntrypointType.MODULE_PATH,
    )
    # Said, so that a deployment that belonged to a work pool does not any more.
    deployment.work_pool_name = deployment.work_queue_name = None
    # Not said: schedules have a hand of their own (`_reconcile`), and who paused a deployment in
    # the UI meant it.
    deployment.model_fields_set.difference_update({"schedules", "paused"})
    return deployment


async def _stored(client: PrefectClient, flows: set[str]) -> dict[str, DeploymentResponse]:
    """What the server has of these flows, by full name."""
    named = FlowFilter(name=FlowFilterName(any_=sorted(flows)))
    found, known = await asyncio.gather(
        client.read_flows(flow_filter=named, limit=_PAGE),
        client.read_deployments(flow_filter=named, limit=_PAGE),
    )
    names = {flow.id: flow.name for flow in found}
    return {f"{names.get(each.flow_id)}/{each.name}": each for each in known}


async def _registered(
    client: PrefectClient,
    planned: PlannedDeployment,
    deployment: RunnerDeployment,
    stored: DeploymentResponse | None,
) -> UUID:
    # Given, since it would be asked of git otherwise.
    version = VersionInfo(type="prefect:simple", version=planned.version)
    if stored is None:
        return await _created(client, planned, deployment, version)
    if not _is_current(stored, deployment):
        await deployment.aapply(version_info=version)
    await _reconcile(client, stored, planned.schedules)
    return stored.id


async def _created(
    client: PrefectClient,
    planned: PlannedDeployment,
    deployment: RunnerDeployment,
    version: VersionInfo,
) -> UUID:
    """Two requests instead of the nine of `RunnerDeployment.apply`; they count at a first start."""
    return await client.create_deployment(
        flow_id=await client.create_flow_from_name(str(deployment.flow_name)),
        name=deployment.name,
        version=deployment.version,
        version_info=version,
        schedules=[_new(schedule) for schedule in planned.schedules],
        concurrency_limit=deployment.concurrency_limit,
        concurrency_options=deployment.concurrency_options,
        parameters=deployment.parameters,
        description=deployment.description,
        tags=deployment.tags,
        entrypoint=deployment.entrypoint,
        parameter_openapi_schema=_form(deployment),
        enforce_parameter_schema=True,
        paused=planned.paused,
    )


def _is_current(stored: DeploymentResponse, deployment: RunnerDeployment) -> bool:
    limit = stored.global_concurrency_limit
    return stored.work_queue_id is None and (
        stored.version,
        stored.description,
        sorted(stored.tags),
        stored.parameters,
        stored.entrypoint,
        limit.limit if limit else None,
        stored.concurrency_options,
        stored.parameter_openapi_schema,
    ) == (
        deployment.version,
        deployment.description,
        sorted(deployment.tags),
        deployment.parameters,
        deployment.entrypoint,
        deployment.concurrency_limit,
        deployment.concurrency_options,
        _form(deployment),
    )


def _form(deployment: RunnerDeployment) -> dict[str, Any]:
    return deployment._parameter_openapi_schema.model_dump(exclude_unset=True)


async def _reconcile(
    client: PrefectClient, stored: DeploymentResponse, planned: Sequence[PlannedSchedule]
) -> None:
    """Bring the schedules of a deployment to what is planned, and leave the switches alone."""
    wanted = {schedule.key: schedule for schedule in planned}
    for existing in stored.schedules:
        schedule = wanted.pop(existing.slug, None) if existing.slug else None
        if existing.slug and schedule is None:
            await client.delete_deployment_schedule(stored.id, existing.id)
        elif schedule is not None and not _same(existing, schedule):
            await client.update_deployment_schedule(
                stored.id, existing.id, schedule=times_of(schedule), parameters=schedule.parameters
            )
    if wanted:
        await client.create_deployment_schedules(
            stored.id, [_new(each) for each in wanted.values()]
        )


def _same(stored: DeploymentSchedule, planned: PlannedSchedule) -> bool:
    wanted = times_of(planned)
    said = wanted.model_fields_set
    return (
        type(stored.schedule) is type(wanted)
        and stored.parameters == planned.parameters
        and stored.schedule.model_dump(include=said) == wanted.model_dump(include=said)
    )


def _new(schedule: PlannedSchedule) -> DeploymentScheduleCreate:
    # Off: serving starts no work by itself.
    return DeploymentScheduleCreate(
        schedule=times_of(schedule), active=False, slug=schedule.key, parameters=schedule.parameters
    )


def times_of(planned: PlannedSchedule) -> Times:
    """The times of a schedule in Prefect's own terms.

    Raises:
        ConfigurationError: Prefect cannot use them.
    """
    try:
        return _times(planned)
    except ValidationError as error:
        raise ConfigurationError(
            f"the schedule {planned.key} cannot be used: {error.errors()[0]['msg']}"
        ) from error


def _times(planned: PlannedSchedule) -> Times:
    zone = planned.timezone
    if planned.cron is not None:
        day_or = {} if planned.day_or is None else {"day_or": planned.day_or}
        return CronSchedule(cron=planned.cron, timezone=zone, **day_or)
    if planned.rrule is not None:
        return RRuleSchedule(rrule=planned.rrule, timezone=zone)
    assert planned.interval is not None, "checked when the plan was read"
    anchor = {} if planned.anchor_date is None else {"anchor_date": planned.anchor_date}
    return IntervalSchedule(interval=planned.interval, timezone=zone, **anchor)


async def withdraw(client: PrefectClient, deployments: Iterable[UUID]) -> None:
    """Delete deployments that have left the list while they were served; their runs stay."""
    for deployment_id in deployments:
        try:
            await client.delete_deployment(deployment_id)
        except ObjectNotFound:
            # It is deleted already.
            continue


_PAGE = 200


async def conclude_dead_runs(client: PrefectClient, deployments: Collection[UUID]) -> list[UUID]:
    """Call the runs of a former runner crashed; ids of those that were.

    Runs that a work pool gave to a worker are not ours to judge.
    """
    if not deployments:
        return []
    runs = await client.read_flow_runs(
        flow_run_filter=FlowRunFilter(
            state=FlowRunFilterState(type=FlowRunFilterStateType(any_=list(AT_WORK)))
        ),
        deployment_filter=DeploymentFilter(id=DeploymentFilterId(any_=list(deployments))),
        limit=_PAGE,
    )
    dead = [run for run in runs if run.work_queue_name is None]
    for run in dead:
        await client.set_flow_run_state(run.id, Crashed(message=MESSAGE), force=True)
    return [run.id for run in dead]
