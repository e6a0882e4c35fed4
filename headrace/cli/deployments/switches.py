"""What starts runs by itself, schedules and triggers, and whether it is on.

Imports no Prefect, which would take longer than the rest of `up`: the server's API is asked itself.
"""

from __future__ import annotations

import http.client
import json
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from headrace.cli.deployments.plan import Plan, PlannedDeployment, trigger_name, trigger_tag
from headrace.cli.server.address import LOOPBACK
from headrace.errors import HeadraceError

_TIMEOUT_S = 30.0
_PAGE = 200


class SwitchesUnknown(HeadraceError):
    """The server does not say which schedules and triggers are on, or does not switch them."""

    def __init__(self, problem: str) -> None:
        super().__init__(
            f"the schedules cannot be read or switched: {problem}",
            hint="The deployments are served; see the schedules in the UI, or repeat the command",
        )


@dataclass(frozen=True, slots=True)
class Switch:
    """A schedule or a trigger as the server has it.

    Attributes:
        name: as a person names it: `ingest/every-5-minutes`.
        active: whether it starts runs.
        wanted: the plan wants it on where schedules are on.
        path: where the API has it.
        field: what the API calls being on.
    """

    name: str
    active: bool
    wanted: bool
    path: str
    field: str


def switches_of(port: int, plan: Plan) -> list[Switch]:
    """The planned schedules, then the planned triggers, as the server on `port` has them.

    Raises:
        SwitchesUnknown: it does not answer as it should.
    """
    planned = {(f"{each.module}.{each.function}", each.name): each for each in plan.deployments}
    stored = [
        (each, planned[key])
        for each in _ask(port, "POST", "/api/deployments/filter", {"limit": _PAGE})
        if (key := (each["entrypoint"], each["name"])) in planned
    ]
    found = [switch for each, ours in stored for switch in _schedules(each, ours)]
    if any(each.triggers for each in plan.deployments):
        owners = {trigger_tag(each["id"]): ours for each, ours in stored}
        for automation in _ask(port, "POST", "/api/automations/filter", {"limit": _PAGE}):
            for tag in owners.keys() & set(automation["tags"]):
                found += _triggers(automation, owners[tag])
    return found


def _schedules(stored: dict[str, Any], planned: PlannedDeployment) -> Iterator[Switch]:
    wanted = {schedule.key: schedule.active for schedule in planned.schedules}
    for each in stored["schedules"]:
        if (slug := each["slug"]) in wanted:
            yield Switch(
                f"{planned.shown_flow}/{slug}",
                active=each["active"],
                wanted=wanted[slug],
                path=f"/api/deployments/{stored['id']}/schedules/{each['id']}",
                field="active",
            )


def _triggers(stored: dict[str, Any], planned: PlannedDeployment) -> Iterator[Switch]:
    for place, spec in enumerate(planned.triggers):
        if trigger_name(planned, place) == stored["name"]:
            yield Switch(
                f"{planned.shown_flow}/{stored['name']}",
                active=stored["enabled"],
                wanted=spec.get("enabled", True) is True,
                path=f"/api/automations/{stored['id']}",
                field="enabled",
            )


def switch_all(port: int, plan: Plan, *, on: bool) -> list[Switch]:
    """Switch on what the plan calls active, or switch off all; what is then.

    Raises:
        SwitchesUnknown: the server does not answer as it should.
    """
    for each in switches_of(port, plan):
        if each.active != on and (each.wanted or not on):
            _ask(port, "PATCH", each.path, {each.field: on})
    return switches_of(port, plan)


def _ask(port: int, method: str, path: str, body: object) -> Any:
    # http.client knows no proxy settings: loopback is never to be asked through one.
    connection = http.client.HTTPConnection(LOOPBACK, port, timeout=_TIMEOUT_S)
    try:
        headers = {"Content-Type": "application/json"}
        connection.request(method, path, json.dumps(body), headers)
        answer = connection.getresponse()
        content = answer.read()
        if answer.status >= http.HTTPStatus.BAD_REQUEST:
            raise SwitchesUnknown(f"{method} {path} was answered with {answer.status}")
        return json.loads(content) if content else None
    except (OSError, http.client.HTTPException, ValueError) as error:
        raise SwitchesUnknown(str(error) or type(error).__name__) from error
    finally:
        connection.close()
