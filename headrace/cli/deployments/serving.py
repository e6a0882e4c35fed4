"""The serving process as `up` sees it: how it is started, when it is ready, which schedules are on.

Imports no Prefect, which would take longer than the rest of `up`: schedules are asked of the
server's API itself.
"""

from __future__ import annotations

import http.client
import json
import os
import sys
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from headrace.cli.deployments.plan import Plan
from headrace.cli.server.address import LOOPBACK
from headrace.cli.server.environment import bytecode_environment, client_environment, prefect_home
from headrace.cli.server.managed import Beside, ManagedServer
from headrace.cli.server.process import NamedProcess
from headrace.cli.server.state import DEPLOYMENTS, ServingNote, read_note
from headrace.errors import HeadraceError
from headrace.project import packages_of_others, project_folder
from headrace.stopping import STOP

#: Longest wait for the first word of a serving process; the slowest seen took 12 s.
READY_TIMEOUT_S = 90.0
_LOOK_EVERY_S = 0.05


class ServingFailed(HeadraceError):
    """The server is up, but the deployments are not served."""

    def __init__(self, problem: str, log_path: Path) -> None:
        super().__init__(
            f"the Prefect server is up, but its deployments are not served: {problem}",
            hint=f"See {log_path}; `headrace up` tries again, `headrace down` ends both",
        )
        self.problem = problem
        self.log_path = log_path


def beside_of(server: ManagedServer, plan: Path, folder: Path) -> Beside:
    """What serves the deployments of `plan`, with `folder` as the working folder of its runs."""
    home = server.folder.path.parent
    command = [
        sys.executable,
        "-m",
        "headrace.cli.deployments.supervisor",
        str(home),
        str(plan),
        str(folder),
    ]
    return Beside(DEPLOYMENTS, command, lambda port: serving_environment(home, plan, port))


def serving_environment(
    home: Path, plan: Path, port: int, environ: Mapping[str, str] = os.environ
) -> dict[str, str]:
    """The whole environment of the serving process and of the runs it starts."""
    ours = [] if packages_of_others(plan.parent) else [str(project_folder())]
    path = [str(plan.parent), *ours, *filter(None, [environ.get("PYTHONPATH")])]
    return {
        # Every line of a run is in the UI; the log keeps warnings and errors.
        "PREFECT_LOGGING_HANDLERS_CONSOLE_LEVEL": "WARNING",
        **environ,
        **client_environment(port, environ),
        **prefect_home(home, environ),
        **bytecode_environment(environ),
        "HEADRACE_HOME": str(home),
        # Flows are imported from the plan's folder, then from ours: not where that one has such
        # packages, since a `flows` without `__init__.py` would not be found before ours. What lies
        # in the folder in which `up` was typed, or on the user's path, is none of their business.
        "PYTHONPATH": os.pathsep.join(dict.fromkeys(path)),
        "PYTHONSAFEPATH": "1",
    }


def wait_until_served(
    server: ManagedServer,
    *,
    timeout_s: float = READY_TIMEOUT_S,
    sleep: Callable[[float], None] = STOP.sleep,
    monotonic: Callable[[], float] = time.monotonic,
) -> ServingNote:
    """Wait for the serving process to say that its deployments can be started.

    Raises:
        ServingFailed: it says why they cannot, ended, or says nothing.
    """
    process = NamedProcess(server.folder, DEPLOYMENTS)
    log_path = server.folder.log_path(DEPLOYMENTS)
    deadline = monotonic() + timeout_s
    while monotonic() < deadline:
        record = process.running()
        if record is None:
            raise ServingFailed("the process that serves them ended", log_path)
        note = read_note(server.folder, record.token)
        if note is not None and note.problem:
            raise ServingFailed(note.problem, log_path)
        if note is not None and note.deployments:
            _check_awake(process, log_path)
            return note
        sleep(_LOOK_EVERY_S)
    _check_awake(process, log_path)
    raise ServingFailed(f"no word from the process that serves them in {timeout_s:g} s", log_path)


def _check_awake(process: NamedProcess, log_path: Path) -> None:
    """What was stopped starts no run, whatever it has said before."""
    if pids := " ".join(map(str, process.stopped())):
        problem = f"what serves them is stopped (pid {pids}); `kill -CONT {pids}` wakes it"
        raise ServingFailed(problem, log_path)


_TIMEOUT_S = 30.0
_PAGE = 200


class SchedulesUnknown(HeadraceError):
    """The server does not say which schedules are on, or does not switch them."""

    def __init__(self, problem: str) -> None:
        super().__init__(
            f"the schedules cannot be read or switched: {problem}",
            hint="The deployments are served; see the schedules in the UI, or repeat the command",
        )


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
