"""Settings that the server and its clients get, and which of the user's own reach them."""

from __future__ import annotations

import sys
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
    given = server_environment(folder, 4200, environ)
    assert given["PATH"] == "/bin"
    assert given["PREFECT_SERVER_DATABASE_CONNECTION_URL"].endswith(str(folder.database))
    assert not {name for name in environ if name != "PATH"} & given.keys()


def test_retention_can_be_tuned(folder: StateFolder) -> None:
    own = {"PREFECT_SERVER_EVENTS_RETENTION_PERIOD": "P9D"}
    assert server_environment(folder, 4200, own)["PREFECT_SERVER_EVENTS_RETENTION_PERIOD"] == "P9D"
    assert server_environment(folder, 4200, {})["PREFECT_SERVER_EVENTS_RETENTION_PERIOD"] == "P3D"


@pytest.mark.parametrize("name", ["DO_NOT_TRACK", "PREFECT_SERVER_ANALYTICS_ENABLED"])
def test_no_telemetry_is_sent(folder: StateFolder, name: str) -> None:
    talkative = {"DO_NOT_TRACK": "0", "PREFECT_SERVER_ANALYTICS_ENABLED": "true"}
    quiet = {"DO_NOT_TRACK": "1", "PREFECT_SERVER_ANALYTICS_ENABLED": "false"}
    assert server_environment(folder, 4200, talkative)[name] == quiet[name]
    assert client_environment(4200, talkative)[name] == quiet[name]


def test_a_clients_own_patience_is_kept() -> None:
    assert client_environment(4200, {})["PREFECT_CLIENT_MAX_RETRIES"] == "3"
    own = {"PREFECT_CLIENT_MAX_RETRIES": "9"}
    assert client_environment(4200, own)["PREFECT_CLIENT_MAX_RETRIES"] == "9"


def test_a_read_only_installation_unpacks_and_compiles_elsewhere(
    folder: StateFolder, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    source = tmp_path / "prefect" / "__init__.py"
    source.parent.mkdir(exist_ok=True)
    monkeypatch.setattr("headrace.cli.server.environment.prefect_source", lambda: source)
    assert "PREFECT_SERVER_UI_STATIC_DIRECTORY" not in server_environment(folder, 4200, {})
    assert "PYTHONPYCACHEPREFIX" not in server_environment(folder, 4200, {})
    monkeypatch.setattr("os.access", lambda path, mode: False)
    given = server_environment(folder, 4200, {})
    assert given["PREFECT_SERVER_UI_STATIC_DIRECTORY"] == str(folder.path / "pages")
    assert given["PYTHONPYCACHEPREFIX"].endswith("bytecode")


def test_compiled_modules_are_kept_where_writing_beside_them_is_forbidden(
    folder: StateFolder, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    source = tmp_path / "package" / "__init__.py"
    (source.parent / "__pycache__").mkdir(parents=True)
    monkeypatch.setattr("headrace.cli.server.environment.prefect_source", lambda: source)
    forbidden = {"PYTHONDONTWRITEBYTECODE": "1"}
    given = server_environment(folder, 4200, forbidden)
    assert given["PYTHONDONTWRITEBYTECODE"] == ""
    assert "PYTHONPYCACHEPREFIX" in given

    tag = sys.implementation.cache_tag
    (source.parent / "__pycache__" / f"__init__.{tag}.pyc").touch()
    assert "PYTHONPYCACHEPREFIX" not in server_environment(folder, 4200, forbidden)
