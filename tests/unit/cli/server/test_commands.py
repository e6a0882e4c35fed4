"""`headrace status` and `headrace down` where nothing runs; what `up` must not import."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest
import typer
from typer.testing import CliRunner

from headrace.cli import up


@pytest.fixture
def runner(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> CliRunner:
    monkeypatch.setenv("HEADRACE_HOME", str(tmp_path / "home"))
    monkeypatch.setenv("PREFECT_HOME", str(tmp_path / "prefect-home"))
    monkeypatch.delenv("PREFECT_API_URL", raising=False)
    monkeypatch.chdir(tmp_path)
    return CliRunner()


@pytest.fixture
def app() -> typer.Typer:
    app = typer.Typer()
    for command in (up.up, up.down, up.status):
        app.command()(command)
    return app


def test_status_of_nothing(runner: CliRunner, app: typer.Typer) -> None:
    result = runner.invoke(app, ["status", "--json"])
    assert result.exit_code == 0
    state = json.loads(result.stdout)
    assert state["running"] is False
    assert state["process"] is None
    assert state["database_bytes"] == 0
    assert "headrace up" in runner.invoke(app, ["status"]).stdout


def test_status_names_the_api_that_is_used_instead(
    runner: CliRunner, app: typer.Typer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PREFECT_API_URL", "http://elsewhere/api")
    assert "http://elsewhere/api" in runner.invoke(app, ["status"]).stdout
    state = json.loads(runner.invoke(app, ["status", "--json"]).stdout)
    assert state["configured_api"] == "http://elsewhere/api"


def test_down_of_nothing(runner: CliRunner, app: typer.Typer) -> None:
    result = runner.invoke(app, ["down", "--json"])
    assert result.exit_code == 0
    assert json.loads(result.stdout) == {"stopped": []}


def test_prefect_is_not_imported() -> None:
    code = "import sys, headrace.cli.up, headrace.cli.server; sys.exit('prefect' in sys.modules)"
    subprocess.run([sys.executable, "-c", code], check=True)


def test_no_command_waits_for_the_import_of_what_few_need() -> None:
    """Prefect takes a second, Looker's SDK half a one."""
    code = "import sys, headrace.cli.main; "
    code += "sys.exit(bool({'prefect', 'looker_sdk'} & set(sys.modules)))"
    subprocess.run([sys.executable, "-c", code], check=True)
