"""Which settings the managed server runs with, and which its clients need.

Both leave the user's own choices alone where they can matter, and both are silent towards the
world. What phones home in Prefect 3.9, and what turns it off:

- the server's heartbeat and the UI's page tracking: `PREFECT_SERVER_ANALYTICS_ENABLED`;
- usage events of the SDK, sent from interactive terminals: `DO_NOT_TRACK`;
- spans and resource metrics, to a collector if one is configured:
  `PREFECT_CLOUD_ENABLE_ORCHESTRATION_TELEMETRY`, `PREFECT_TELEMETRY_ENABLE_RESOURCE_METRICS`;
- upgrade and marketing banners of the UI: `PREFECT_SERVER_UI_SHOW_PROMOTIONAL_CONTENT`.

Compiling what a Prefect server imports takes 10 s, what a flow imports 3 s. Where nothing was
compiled at installation and nothing may be written beside the source (`PYTHONDONTWRITEBYTECODE`, a
read-only installation), every start would pay for that; so compiled modules go to the user's cache
folder.
"""

from __future__ import annotations

import importlib.util
import os
import sys
from collections.abc import Mapping
from pathlib import Path

import platformdirs

from headrace.cli.server.address import LOOPBACK, api_url
from headrace.cli.server.state import StateFolder


def prefect_source() -> Path | None:
    """Return Prefect's `__init__.py`, without importing it; None if it is not installed."""
    spec = importlib.util.find_spec("prefect")
    return None if spec is None or spec.origin is None else Path(spec.origin)


def bytecode_folder(environ: Mapping[str, str] = os.environ) -> Path | None:
    """Return where compiled modules are to be kept; None to leave it to Python."""
    source = prefect_source()
    if source is None or environ.get("PYTHONPYCACHEPREFIX"):
        return None
    beside = source.parent / "__pycache__"
    if any(beside.glob(f"{source.stem}.{sys.implementation.cache_tag}*.pyc")):
        return None
    if not environ.get("PYTHONDONTWRITEBYTECODE") and os.access(source.parent, os.W_OK):
        return None
    return platformdirs.user_cache_path("headrace", appauthor=False) / "bytecode"


def bytecode_environment(environ: Mapping[str, str] = os.environ) -> dict[str, str]:
    """Return what a child process needs in its environment to use that folder."""
    folder = bytecode_folder(environ)
    if folder is None:
        return {}
    return {"PYTHONDONTWRITEBYTECODE": "", "PYTHONPYCACHEPREFIX": str(folder)}


_SILENCE = {
    "DO_NOT_TRACK": "1",
    "PREFECT_SERVER_ANALYTICS_ENABLED": "false",
    "PREFECT_CLOUD_ENABLE_ORCHESTRATION_TELEMETRY": "false",
    "PREFECT_TELEMETRY_ENABLE_RESOURCE_METRICS": "false",
}

#: A user may tune these for the managed server; every other PREFECT_ setting speaks of another one.
_PASSED_ON = (
    "PREFECT_SERVER_LOGGING_LEVEL",
    "PREFECT_SERVER_EVENTS_",
    "PREFECT_SERVER_SERVICES_",
    "PREFECT_SERVER_UI_STATIC_DIRECTORY",
)

#: Keeps the database small: runs live for 30 days, events for 3 (defaults: for ever, and 7 days).
RETENTION = {
    "PREFECT_SERVER_SERVICES_DB_VACUUM_ENABLED": "events,flow_runs",
    "PREFECT_SERVER_SERVICES_DB_VACUUM_RETENTION_PERIOD": str(30 * 86400),
    "PREFECT_SERVER_EVENTS_RETENTION_PERIOD": "P3D",
}

#: Prefect writes each state of a task run in a transaction of its own. Written by the fifty, SQLite
#: takes 60 task runs a second instead of 16; the UI is a second behind.
RECORDING = {
    "PREFECT_SERVER_SERVICES_TASK_RUN_RECORDER_READ_BATCH_SIZE": "50",
    "PREFECT_SERVER_SERVICES_TASK_RUN_RECORDER_BATCH_SIZE": "50",
    "PREFECT_SERVER_SERVICES_TASK_RUN_RECORDER_FLUSH_INTERVAL": "1",
    "PREFECT_SERVER_SERVICES_EVENT_PERSISTER_BATCH_SIZE": "100",
    "PREFECT_SERVER_SERVICES_EVENT_PERSISTER_FLUSH_INTERVAL": "1",
}

#: What else a profile could change of runs and of what `headrace up` serves
#: (docs/adr/0011-prefect-settings.md); flows and tasks say the rest themselves.
_FIXED = {
    "PREFECT_RUNNER_AUTO_INSTALL_DEPENDENCIES": "false",
    "PREFECT_RUNNER_CRASH_ON_CANCELLATION_FAILURE": "false",
    "PREFECT_CLIENT_METRICS_ENABLED": "false",
}

#: Of any client of ours, unless its environment says otherwise.
_LOGGING = {
    # The library logs from threads that belong to no run; that is no reason for a warning.
    "PREFECT_LOGGING_TO_API_WHEN_MISSING_FLOW": "ignore",
    # Otherwise each event that cannot be delivered is logged as an error, with its whole body. That
    # none can be is one warning of the run.
    "PREFECT_LOGGING_INTERNAL_LEVEL": "CRITICAL",
}

#: Of a client of the managed server, likewise.
_CLIENT_DEFAULTS = {
    **_LOGGING,
    # A call that cannot connect sleeps 2, 4, 8 s before it fails: enough for a restart of the
    # server (6 s). With Prefect's 5 retries a run whose server is gone takes 100 s to say so.
    "PREFECT_CLIENT_MAX_RETRIES": "3",
}


def server_environment(
    folder: StateFolder, port: int, environ: Mapping[str, str] = os.environ
) -> dict[str, str]:
    """Return the whole environment of a managed server on `port` with its state in `folder`."""
    own = {name: value for name, value in environ.items() if _concerns_server(name)}
    return {
        **RETENTION,
        **RECORDING,
        **_pages(folder),
        "PREFECT_SERVER_LOGGING_LEVEL": "WARNING",
        **own,
        **_SILENCE,
        **bytecode_environment(environ),
        "PREFECT_HOME": str(folder.path),
        "PREFECT_SERVER_DATABASE_CONNECTION_URL": _database_url(folder),
        "PREFECT_API_URL": api_url(port),
        "PREFECT_UI_API_URL": api_url(port),
        "PREFECT_SERVER_API_HOST": LOOPBACK,
        "PREFECT_SERVER_API_PORT": str(port),
        "PREFECT_SERVER_UI_SHOW_PROMOTIONAL_CONTENT": "false",
    }


def client_environment(port: int, environ: Mapping[str, str] = os.environ) -> dict[str, str]:
    """Return what must be in the environment before `prefect` is imported by a client.

    `PREFECT_HOME` is not among it: the user's profile keeps its say in everything but the server.
    """
    return {
        **_unless_set(_CLIENT_DEFAULTS, environ),
        **_FIXED,
        **_SILENCE,
        "PREFECT_API_URL": api_url(port),
        "PREFECT_SERVER_EPHEMERAL_ENABLED": "false",
    }


def configured_environment(environ: Mapping[str, str] = os.environ) -> dict[str, str]:
    """The same for a client of an API that the user configured; where it is stays untouched."""
    return _unless_set(_LOGGING, environ)


def _unless_set(defaults: Mapping[str, str], environ: Mapping[str, str]) -> dict[str, str]:
    return {name: environ.get(name) or value for name, value in defaults.items()}


def prefect_home(home: Path, environ: Mapping[str, str] = os.environ) -> dict[str, str]:
    """Where Prefect's client keeps its files if the user has no home folder that can be written.

    Without one (a container with a user id of its own, a read-only home) it cannot be imported, or
    warns each time.

    Args:
        home: `HEADRACE_HOME`.
        environ: the environment variables.
    """
    if environ.get("PREFECT_HOME"):
        return {}
    try:
        usual = Path("~/.prefect").expanduser()
        if usual.is_dir() or (os.access(usual.parent, os.W_OK | os.X_OK) and usual.parent.is_dir()):
            return {}
    except (RuntimeError, OSError):  # there is none, or it may not be looked at
        pass
    return {"PREFECT_HOME": str(home / "prefect-client")}


def _database_url(folder: StateFolder) -> str:
    # The server runs in this folder. In a URL, what follows a question mark is no part of the path.
    path = str(folder.database)
    return f"sqlite+aiosqlite:///{folder.database.name if '?' in path else path}"


def _pages(folder: StateFolder) -> dict[str, str]:
    # Prefect unpacks its pages beside its source; where it may not, there would be no UI.
    source = prefect_source()
    if source is None or os.access(source.parent, os.W_OK):
        return {}
    return {"PREFECT_SERVER_UI_STATIC_DIRECTORY": str(folder.path / "pages")}


def _concerns_server(name: str) -> bool:
    return not name.startswith("PREFECT_") or name.startswith(_PASSED_ON)
