"""The schedules of the served deployments: which are on, and switching them.

Asks the server's API itself: importing Prefect for it would take longer than the rest of `up`.
"""

from __future__ import annotations

import http.client
import json
from dataclasses import dataclass
from typing import Any

from headrace.cli.deployments.exceptions import SchedulesUnknown
from headrace.cli.deployments.plan import Plan
from headrace.cli.server.address import LOOPBACK

_TIMEOUT_S = 30.0
_PAGE = 200


@dataclass(frozen=True, slots=True)
class Schedule:
    """A schedule as the server has it.

    Attributes:
        deployment: its name, without that of its flow.
        entrypoint: the flow, as it is imported: `flows.ingest.ingest`.
        slug: its name within the deployment.
        active: whether it starts runs.
        wanted: the plan wants it on where schedules are on.
        path: where the API has it.
    """

    deployment: str
    entrypoint: str
    slug: str
    active: bool
    wanted: bool
    path: str

    @property
    def words(self) -> str:
        """The schedule as a person names it: `ingest/every-5-minutes`."""
        return f"{self.entrypoint.rpartition('.')[2]}/{self.slug}"


def schedules_of(port: int, plan: Plan) -> list[Schedule]:
    """The planned schedules, as the server on `port` has them.

    Raises:
        SchedulesUnknown: it does not answer as it should.
    """
    wanted = {
        (f"{each.module}.{each.function}", each.name, schedule.key): schedule.active
        for each in plan.deployments
        for schedule in each.schedules
    }
    return [
        Schedule(
            deployment=each["name"],
            entrypoint=each["entrypoint"],
            slug=schedule["slug"],
            active=schedule["active"],
            wanted=wanted[key],
            path=f"/api/deployments/{each['id']}/schedules/{schedule['id']}",
        )
        for each in _ask(port, "POST", "/api/deployments/filter", {"limit": _PAGE})
        for schedule in each["schedules"]
        if (key := (each["entrypoint"], each["name"], schedule["slug"])) in wanted
    ]


def switch_schedules(port: int, plan: Plan, *, on: bool) -> list[Schedule]:
    """Switch on the schedules that the plan calls active, or switch off all; what is then.

    Raises:
        SchedulesUnknown: the server does not answer as it should.
    """
    for each in schedules_of(port, plan):
        if each.active != on and (each.wanted or not on):
            _ask(port, "PATCH", each.path, {"active": on})
    return schedules_of(port, plan)


def _ask(port: int, method: str, path: str, body: object) -> Any:
    # http.client knows no proxy settings: loopback is never to be asked through one.
    connection = http.client.HTTPConnection(LOOPBACK, port, timeout=_TIMEOUT_S)
    try:
        headers = {"Content-Type": "application/json"}
        connection.request(method, path, json.dumps(body), headers)
        answer = connection.getresponse()
        content = answer.read()
        if answer.status >= http.HTTPStatus.BAD_REQUEST:
            raise SchedulesUnknown(f"{method} {path} was answered with {answer.status}")
        return json.loads(content) if content else None
    except (OSError, http.client.HTTPException, ValueError) as error:
        raise SchedulesUnknown(str(error) or type(error).__name__) from error
    finally:
        connection.close()
