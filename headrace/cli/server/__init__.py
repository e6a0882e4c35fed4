"""The local Prefect server, started, shared, found again and stopped.

For a command that runs a flow::

    with api_for_run(home, while_starting=lambda: import_module("flows.backfill")) as api:
        ...                       # import prefect here, run the flow
    bounded_exit(code)            # ends the process even if the API is gone

For `up`, `down` and `status`::

    server = ManagedServer(home)
    server.up(port=None).ui_url   # runs until down(), whatever happens to it meanwhile
    server.running()              # RunningServer or None
    server.down()                 # ["deployments", "server"]: what was stopped

For another process that `up` keeps and `down` ends::

    server.up(beside=[Beside("deployments", command, environment_for_port)])

Nothing here imports Prefect, except in the process of the server itself (`launch`) and where it has
been imported before. Modules: `managed` (the server), `process` (any process of ours, known by a
token), `state` (the folder), `address` (ports, health), `environment` (settings for server and
clients), `configured` (the user's API), `run` (an API for one command), `status`.
"""

from headrace.cli.exit_codes import bounded_exit, drain
from headrace.cli.server.address import PortTakenError
from headrace.cli.server.configured import configured_api
from headrace.cli.server.environment import client_environment
from headrace.cli.server.managed import (
    ManagedServer,
    ProcessStartError,
    RunningServer,
    ServerElsewhereError,
)
from headrace.cli.server.process import NamedProcess
from headrace.cli.server.run import RunApi, api_for_run, managed_api
from headrace.cli.server.state import ProcessRecord, StateFolder, StateFolderError

__all__ = [
    "ManagedServer",
    "NamedProcess",
    "PortTakenError",
    "ProcessRecord",
    "ProcessStartError",
    "RunApi",
    "RunningServer",
    "ServerElsewhereError",
    "StateFolder",
    "StateFolderError",
    "api_for_run",
    "bounded_exit",
    "client_environment",
    "configured_api",
    "drain",
    "managed_api",
]
