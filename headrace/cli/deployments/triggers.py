"""The triggers of deployments as automations of the server: events that start a run.

As schedules: a new one is off until it is switched on, switches stay as they are, and one that has
left the list is deleted. Prefect's own `deploy` deletes and creates all of them each time, which
would forget the switches.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any
from uuid import UUID

from prefect.automations import AutomationCore
from prefect.client.orchestration import PrefectClient
from prefect.events import DeploymentTriggerTypes
from prefect.events.schemas.automations import Automation
from pydantic import TypeAdapter, ValidationError

from headrace.cli.deployments.plan import PlannedDeployment, trigger_name, trigger_tag
from headrace.errors import ConfigurationError

_TRIGGER: TypeAdapter[DeploymentTriggerTypes] = TypeAdapter(DeploymentTriggerTypes)


def automations_of(planned: PlannedDeployment, deployment_id: UUID) -> list[AutomationCore]:
    """The triggers of a deployment in the server's terms, switched off.

    Raises:
        ConfigurationError: one is not what Prefect calls a trigger.
    """
    found = []
    for place, spec in enumerate(planned.triggers):
        name = trigger_name(planned, place)
        try:
            trigger = _TRIGGER.validate_python({**spec, "name": name, "enabled": False})
        except ValidationError as error:
            problem = error.errors()[0]
            where = ".".join(map(str, problem["loc"]))
            raise ConfigurationError(
                f"trigger {name} of {planned.entrypoint}: {where}: {problem['msg']}",
                hint="docs.prefect.io describes triggers under Deployments",
            ) from error
        trigger.set_deployment_id(deployment_id)
        automation = trigger.as_automation()
        automation.tags = [trigger_tag(deployment_id)]
        found.append(automation)
    return found


async def reconcile_triggers(
    client: PrefectClient, wanted: Mapping[UUID, list[AutomationCore]]
) -> None:
    """Bring the triggers of these deployments to what is wanted, and leave the switches alone."""
    tags = {trigger_tag(deployment_id) for deployment_id in wanted}
    missing = {
        (tag, each.name): each
        for planned in wanted.values()
        for each in planned
        for tag in each.tags
    }
    for existing in await client.read_automations():
        tag = next(iter(tags.intersection(existing.tags)), None)
        if tag is None:
            continue
        planned = missing.pop((tag, existing.name), None)
        if planned is None:
            await client.delete_automation(existing.id)
        elif _said(existing) != _said(planned):
            planned.enabled = existing.enabled
            await client.update_automation(existing.id, planned)
    for each in missing.values():
        await client.create_automation(each)


def _said(automation: AutomationCore | Automation) -> Any:
    said = automation.model_dump(mode="json", include={"description", "trigger", "actions"})
    return _without_ids(said)


def _without_ids(value: Any) -> Any:
    """What the server numbers by itself is no difference."""
    if isinstance(value, dict):
        return {name: _without_ids(each) for name, each in value.items() if name != "id"}
    return [_without_ids(each) for each in value] if isinstance(value, list) else value
