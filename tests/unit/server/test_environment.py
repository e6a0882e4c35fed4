"""What the server and its clients are told, and what of the user's own settings reaches them."""

from __future__ import annotations

from pathlib import Path

import pytest

from headrace.cli.server import StateFolder, client_environment
from headrace.cli.server.environment import server_environment


@pytest.fixture
def folder(tmp_path: Path) -> StateFolder:
    return StateFolder(tmp_path)


def test_the_users_other_server_is_left_alone(folder: StateFolder) -> None:
    environ = {
        "PATH": "/bin",
        "PREFECT_API_DATABASE_CONNECTION_URL": "postgresql+asyncpg://prod/prefect",
        "PREFECT_SERVER_DATABASE_HOST": "prod",
        "PREFECT_API_KEY": "secret",
        "PREFECT_SERVER_API_AUTH_STRING": "user:secret",
        "PREFECT_PROFILE": "prod",
    }
    told = server_environment(folder, 4200, environ)
    assert told["PATH"] == "/bin"
    assert told["PREFECT_SERVER_DATABASE_CONNECTION_URL"].endswith(str(folder.database))
    assert not {name for name in environ if name != "PATH"} & told.keys()


def test_retention_can_be_tuned(folder: StateFolder) -> None:
    own = {"PREFECT_SERVER_EVENTS_RETENTION_PERIOD": "P9D"}
    assert server_environment(folder, 4200, own)["PREFECT_SERVER_EVENTS_RETENTION_PERIOD"] == "P9D"
    assert server_environment(folder, 4200, {})["PREFECT_SERVER_EVENTS_RETENTION_PERIOD"] == "P3D"


@pytest.mark.parametrize("name", ["DO_NOT_TRACK", "PREFECT_SERVER_ANALYTICS_ENABLED"])
def test_nobody_phones_home(folder: StateFolder, name: str) -> None:
    talkative = {"DO_NOT_TRACK": "0", "PREFECT_SERVER_ANALYTICS_ENABLED": "true"}
    quiet = {"DO_NOT_TRACK": "1", "PREFECT_SERVER_ANALYTICS_ENABLED": "false"}
    assert server_environment(folder, 4200, talkative)[name] == quiet[name]
    assert client_environment(4200, talkative)[name] == quiet[name]


def test_loopback_is_not_asked_through_a_proxy() -> None:
    told = client_environment(4200, {"no_proxy": "intranet.example"})
    assert told["no_proxy"] == told["NO_PROXY"] == "intranet.example,127.0.0.1,localhost"


def test_a_clients_own_patience_is_kept() -> None:
    assert client_environment(4200, {})["PREFECT_CLIENT_MAX_RETRIES"] == "3"
    own = {"PREFECT_CLIENT_MAX_RETRIES": "9"}
    assert client_environment(4200, own)["PREFECT_CLIENT_MAX_RETRIES"] == "9"
