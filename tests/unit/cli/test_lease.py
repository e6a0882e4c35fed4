"""`headrace lease`: what it shows, what it refuses, and what it asks."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from click.testing import Result
from typer.testing import CliRunner

from headrace.cli.lease import app
from headrace.errors import ConfigurationError
from headrace.leases import LeaseHeld, LeaseLost, LeaseStatus, SqliteLeases
from headrace.leases.model import Process
from headrace.leases.this_machine import ThisMachine

NAME = "coinbase/BTC-USD"


@pytest.fixture(autouse=True)
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("HEADRACE_HOME", str(tmp_path))
    monkeypatch.delenv("HEADRACE_LEASES", raising=False)
    monkeypatch.setenv("COLUMNS", "200")
    return tmp_path


@pytest.fixture
def store(home: Path) -> SqliteLeases:
    return SqliteLeases(home / "leases")


class Before(ThisMachine):
    """This machine, as seen by a process that had our pid and is gone."""

    def me(self) -> Process:
        me = super().me()
        assert me.start_ticks is not None
        return me.model_copy(update={"start_ticks": me.start_ticks - 1})


@pytest.fixture
def of_the_dead(store: SqliteLeases) -> str:
    SqliteLeases(store.path.parent, machine=Before()).acquire(NAME, run_id="dead", ttl_s=3600)
    return NAME


def run(*arguments: str) -> Result:
    return CliRunner().invoke(app, arguments)


def fails(*arguments: str) -> BaseException | None:
    return run(*arguments).exception


def as_json(*arguments: str) -> Any:
    result = run(*arguments, "--json")
    assert result.exit_code == 0, result.exception
    return json.loads(result.stdout)


def test_an_empty_list_makes_no_file(home: Path) -> None:
    assert "no lease in" in run("list").stdout
    assert as_json("list") == {"leases": []}
    assert list(home.iterdir()) == []


def test_the_list(store: SqliteLeases) -> None:
    grant = store.acquire(NAME, run_id="night-run", ttl_s=60)
    (lease,) = as_json("list")["leases"]
    assert lease["name"] == NAME
    assert lease["token"] == grant.token
    assert (lease["standing"], lease["process"]) == ("held", "alive")
    assert lease["holder"] == {
        "host": grant.holder.host,
        "pid": grant.holder.pid,
        "run_id": "night-run",
        "since": grant.holder.since.isoformat(),
        "expires": grant.holder.expires.isoformat(),
        "ttl_s": 60.0,
    }
    shown = run("list").stdout
    for text in (NAME, "held", "night-run", f"pid {grant.holder.pid}", str(grant.token)):
        assert text in shown


def test_names_are_no_markup(store: SqliteLeases) -> None:
    store.acquire(NAME, run_id="[bold]x[/bold]", ttl_s=60)
    assert "[bold]x[/bold]" in run("list").stdout


def test_another_store(tmp_path: Path) -> None:
    SqliteLeases(tmp_path / "other").acquire("elsewhere", run_id="one", ttl_s=60)
    assert as_json("list", "--store", str(tmp_path / "other"))["leases"][0]["name"] == "elsewhere"


def test_the_dead_are_released_after_a_yes(store: SqliteLeases, of_the_dead: str) -> None:
    assert [state.status for state in store.list()] == [LeaseStatus.DEAD]
    released = as_json("release", of_the_dead, "--yes")
    assert released["name"] == NAME
    assert released["released"]["run_id"] == "dead"
    assert [state.status for state in store.list()] == [LeaseStatus.FREE]


def test_no_lease_is_released_without_an_answer(store: SqliteLeases, of_the_dead: str) -> None:
    error = fails("release", of_the_dead)
    assert isinstance(error, ConfigurationError)
    assert "its process is gone" in str(error)
    assert [state.status for state in store.list()] == [LeaseStatus.DEAD]


@pytest.mark.parametrize(("answer", "status"), [("n", LeaseStatus.DEAD), ("y", LeaseStatus.FREE)])
def test_a_person_is_asked(
    store: SqliteLeases,
    of_the_dead: str,
    monkeypatch: pytest.MonkeyPatch,
    answer: str,
    status: LeaseStatus,
) -> None:
    monkeypatch.setattr("headrace.cli.common.has_terminal", lambda: True)
    CliRunner().invoke(app, ["release", of_the_dead], input=answer)
    assert [state.status for state in store.list()] == [status]


def test_the_living_keep_theirs_unless_forced(store: SqliteLeases) -> None:
    grant = store.acquire(NAME, run_id="one", ttl_s=60)
    error = fails("release", NAME, "--yes")
    assert isinstance(error, LeaseHeld)
    assert f"kill {grant.holder.pid}" in str(error)
    store.check(grant)
    assert "released" in run("release", NAME, "--yes", "--force").stdout
    with pytest.raises(LeaseLost):
        store.check(grant)


def test_releasing_twice(store: SqliteLeases) -> None:
    store.release(store.acquire(NAME, run_id="one", ttl_s=60))
    assert f"{NAME} is not held" in run("release", NAME).stdout
    assert as_json("release", NAME) == {"name": NAME, "released": None}


def test_an_unknown_name_is_a_mistake(store: SqliteLeases) -> None:
    store.release(store.acquire(NAME, run_id="one", ttl_s=60))
    error = fails("release", "coinbase/btc-usd")
    assert isinstance(error, ConfigurationError)
    assert f"Known: {NAME}" in str(error)
