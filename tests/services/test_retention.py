"""What is old leaves Prefect's database, and the disk gets its room back when asked."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from uuid import uuid4

import pytest

from headrace.cli.server import ManagedServer
from headrace.cli.server.state import StateFolder
from headrace.errors import StateError
from tests.support.served import Server, clean_environment, wait_until

pytestmark = [pytest.mark.services, pytest.mark.timeout(180)]


@pytest.fixture
def server(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Server]:
    """A server that looks every second for what is older than two hours."""
    monkeypatch.setenv("PREFECT_SERVER_SERVICES_DB_VACUUM_LOOP_SECONDS", "1")
    monkeypatch.setenv("PREFECT_SERVER_SERVICES_DB_VACUUM_RETENTION_PERIOD", "7200")
    managed = ManagedServer(tmp_path / "home")
    api_url = managed.up().api_url
    yield Server(tmp_path, clean_environment(HEADRACE_HOME=str(tmp_path / "home")), api_url)
    managed.down()


def ended_run(server: Server, flow_id: str) -> str:
    run = server.ask("POST", "/flow_runs/", {"flow_id": flow_id, "state": {"type": "COMPLETED"}})
    server.ask("POST", "/artifacts/", {"key": "shown", "flow_run_id": run["id"], "data": "x"})
    line = {"name": "l", "level": 20, "message": "x" * 4000, "timestamp": "2026-01-01T00:00:00Z"}
    server.ask("POST", "/logs/", [{**line, "flow_run_id": run["id"]} for _ in range(100)])
    return str(run["id"])


def test_old_runs_go_with_all_they_left_and_new_ones_stay(server: Server) -> None:
    flow = server.ask("POST", "/flows/", {"name": "ingest"})
    old, new = ended_run(server, flow["id"]), ended_run(server, flow["id"])
    database = StateFolder(server.home).database

    def counted(query: str, *values: str) -> int:
        with closing(sqlite3.connect(database, timeout=30)) as connection:
            return int(connection.execute(query, values).fetchone()[0])

    with closing(sqlite3.connect(database, timeout=30)) as connection:
        connection.execute(
            "update flow_run set end_time = datetime('now', '-3 hours') where id = ?", (old,)
        )
        connection.commit()
    left = "select (select count(*) from {0} where flow_run_id = ?)"
    wait_until(
        lambda: not counted("select count(*) from flow_run where id = ?", old), 60, "the run"
    )
    for table in ("log", "artifact"):
        wait_until(lambda table=table: not counted(left.format(table), old), 30, table)
        assert counted(left.format(table), new) > 0
    with pytest.raises(StateError, match="in use"):
        ManagedServer(server.home).vacuum()
    before = StateFolder(server.home).database_bytes()
    said = server.command("down", "--vacuum").stdout
    assert "MiB" in said
    assert StateFolder(server.home).database_bytes() < before
    with closing(sqlite3.connect(database)) as connection:
        assert connection.execute("pragma integrity_check").fetchone() == ("ok",)


def test_a_database_that_is_none_is_named(tmp_path: Path) -> None:
    managed = ManagedServer(tmp_path)
    assert managed.vacuum() == (0, 0)
    database = managed.folder.database
    database.write_bytes(uuid4().bytes * 1000)
    with pytest.raises(StateError, match=str(database)):
        managed.vacuum()
