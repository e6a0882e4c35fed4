"""What there is to say about the managed server and what runs beside it."""

from __future__ import annotations

import time
from datetime import UTC, datetime

import msgspec

from headrace.cli.server.address import api_url, is_healthy, server_version, ui_url
from headrace.cli.server.configured import configured_api
from headrace.cli.server.managed import ManagedServer
from headrace.cli.server.process import NamedProcess
from headrace.cli.server.schedules import Schedule, schedules_of
from headrace.cli.server.state import DEPLOYMENTS, SERVER, ServingNote, read_note

#: How long a slow server is asked.
_LIMIT_S = 5.0


class ProcessStatus(msgspec.Struct, frozen=True, kw_only=True):
    """A managed process that lives.

    Attributes:
        since: when it was started (UTC).
        stopped: the ids of it and of its children, as far as they are stopped (SIGSTOP).
    """

    name: str
    pid: int
    since: datetime
    log: str
    stopped: list[int] = []


class ServerStatus(msgspec.Struct, frozen=True, kw_only=True):
    """The managed server as it is now; the same names as in `headrace status --json`.

    Attributes:
        running: its process lives.
        answers: and its API says that it is well.
        kept: it stays until `headrace down`, else until its last user is done.
        in_use: some command uses it at this moment.
        version: of the Prefect that answers.
        beside: the other managed processes.
        serving: what the one of them that serves deployments says; None if it is gone.
        schedules: the deployments that schedules start; None if the server does not say.
        configured_api: what commands use instead, because the user said so.
    """

    running: bool
    answers: bool = False
    kept: bool = False
    in_use: bool = False
    process: ProcessStatus | None = None
    ui_url: str | None = None
    api_url: str | None = None
    version: str | None = None
    database: str
    database_bytes: int
    beside: list[ProcessStatus] = []
    serving: ServingNote | None = None
    schedules: list[Schedule] | None = None
    configured_api: str | None = None
    configured_by: str | None = None


def server_status(server: ManagedServer) -> ServerStatus:
    """Look at the state folder, the processes and the API; change nothing."""
    folder = server.folder
    processes = {name: _process(server, name) for name in folder.record_names()}
    own = processes.pop(SERVER, None)
    running = server.running()
    port = running.port if running is not None and own is not None else None
    configured = configured_api()
    deadline = time.monotonic() + _LIMIT_S
    answers = port is not None and is_healthy(port, timeout_s=3.0)
    version = None if port is None else server_version(port)
    serving = _serving(server)
    schedules = None
    if port is not None and answers and serving is not None:
        schedules = schedules_of(port, serving.deployments, deadline=deadline)
    return ServerStatus(
        running=port is not None,
        answers=answers,
        kept=running is not None and running.record.kept,
        in_use=server.in_use_now(),
        process=own if port is not None else None,
        ui_url=None if port is None else ui_url(port),
        api_url=None if port is None else api_url(port),
        version=version,
        database=str(folder.database),
        database_bytes=folder.database_bytes(),
        beside=[process for process in processes.values() if process is not None],
        serving=serving,
        schedules=schedules,
        configured_api=configured.api_url if configured else None,
        configured_by=configured.source if configured else None,
    )


def _serving(server: ManagedServer) -> ServingNote | None:
    record = NamedProcess(server.folder, DEPLOYMENTS).running()
    if record is None:
        return None
    note = read_note(server.folder, record.token) or ServingNote(token="")
    # The token is for recognising a process, not for showing.
    return msgspec.structs.replace(note, token="")


def _process(server: ManagedServer, name: str) -> ProcessStatus | None:
    process = NamedProcess(server.folder, name)
    record = process.running()
    if record is None:
        return None
    return ProcessStatus(
        name=name,
        pid=record.pid,
        since=datetime.fromtimestamp(int(record.started_at), UTC),
        log=str(server.folder.log_path(name)),
        stopped=process.stopped(),
    )
