"""The API that commands would use, found without making or starting anything."""

from __future__ import annotations

from pathlib import Path

import msgspec
import psutil

from headrace.cli.server.address import api_url
from headrace.cli.server.configured import ConfiguredApi, configured_api
from headrace.cli.server.state import SERVER, ProcessRecord


def present_api(home: Path) -> ConfiguredApi | None:
    """The configured API, else that of the managed server if its process lives.

    Args:
        home: the state folder of the managed server.

    Raises:
        ConfigurationError: a settings file of Prefect's cannot be read.
    """
    configured = configured_api()
    if configured is not None:
        return configured
    port = managed_port(home)
    return None if port is None else ConfiguredApi(api_url(port), "headrace up")


def managed_port(home: Path) -> int | None:
    """The port of the managed server, if its process lives."""
    # Not through StateFolder, which makes the folder and sets its mode.
    path = home / "processes" / f"{SERVER}.json"
    try:
        record = msgspec.json.decode(path.read_bytes(), type=ProcessRecord)
    except (OSError, msgspec.DecodeError):
        return None
    return record.port if psutil.pid_exists(record.pid) else None
