"""The serving process as `up` sees it: how it is started, and when it is ready.

Imports no Prefect, which would take longer than the rest of `up`.
"""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Mapping
from pathlib import Path

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


def wait_until_served(server: ManagedServer) -> ServingNote:
    """Wait for the serving process to say that its deployments can be started.

    Raises:
        ServingFailed: it says why they cannot, ended, or says nothing.
    """
    process = NamedProcess(server.folder, DEPLOYMENTS)
    log_path = server.folder.log_path(DEPLOYMENTS)
    deadline = time.monotonic() + READY_TIMEOUT_S
    while time.monotonic() < deadline:
        record = process.running()
        if record is None:
            raise ServingFailed("the process that serves them ended", log_path)
        note = read_note(server.folder, record.token)
        if note is not None and note.problem:
            raise ServingFailed(note.problem, log_path)
        if note is not None and note.deployments:
            _check_awake(process, log_path)
            return note
        STOP.sleep(_LOOK_EVERY_S)
    _check_awake(process, log_path)
    problem = f"no word from the process that serves them in {READY_TIMEOUT_S:g} s"
    raise ServingFailed(problem, log_path)


def _check_awake(process: NamedProcess, log_path: Path) -> None:
    """What was stopped starts no run, whatever it has said before."""
    if pids := " ".join(map(str, process.stopped())):
        problem = f"what serves them is stopped (pid {pids}); `kill -CONT {pids}` wakes it"
        raise ServingFailed(problem, log_path)
