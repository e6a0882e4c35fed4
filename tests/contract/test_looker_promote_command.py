"""`headrace looker promote`, as its users meet it: the plan, the question, JSON, exit codes."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from support.restores import EMPTY, SMALL
from typer.testing import CliRunner

from headrace.cli.exit_codes import exit_of_error
from headrace.cli.main import app
from headrace.errors import HeadraceError
from headrace.sim.looker import SimulatedLooker


class Desk:
    """A user at a terminal, with two Lookers."""

    def __init__(self, dev: SimulatedLooker, prod: SimulatedLooker) -> None:
        self.dev, self.prod = dev, prod

    def run(self, *words: str) -> tuple[int, str]:
        """Exit code, and what was said on both streams."""
        result = CliRunner().invoke(app, ["looker", "promote", "--rate", "none", *words])
        if isinstance(result.exception, HeadraceError):
            return exit_of_error(result.exception), f"headrace: {result.exception}"
        assert result.exception is None or isinstance(result.exception, SystemExit), result.output
        return result.exit_code, result.output

    def json(self, *words: str, code: int = 0) -> dict[str, Any]:
        """The one object that --json prints."""
        got, said = self.run(*words, "--json")
        assert got == code, said
        answer: dict[str, Any] = json.loads(said)
        return answer


@pytest.fixture
def desk(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Desk]:
    monkeypatch.setenv("HEADRACE_HOME", str(tmp_path / "home"))
    monkeypatch.setenv("HEADRACE_LOOKER_VAULT", str(tmp_path / "vault.sqlite"))
    monkeypatch.setenv("COLUMNS", "200")
    counts = {**SMALL, "merge_query": 6}
    prod_counts = {**EMPTY, "user": 10, "lookml_model": 1, "explore": 1}
    with (
        SimulatedLooker(counts=counts, seed=1) as dev,
        SimulatedLooker(counts=prod_counts, seed=2, client_secret="of-production") as prod,
    ):
        for prefix, sim, secret in (
            ("LOOKERSDK_", dev, "simulated-secret"),
            ("LOOKERSDK_TARGET_", prod, "of-production"),
        ):
            monkeypatch.setenv(f"{prefix}BASE_URL", sim.url)
            monkeypatch.setenv(f"{prefix}CLIENT_ID", "headrace")
            monkeypatch.setenv(f"{prefix}CLIENT_SECRET", secret)
        yield Desk(dev, prod)


def test_a_plan_a_question_a_promotion_and_then_nothing_to_do(desk: Desk) -> None:
    reported = desk.json("2", "--dry-run")
    assert (reported["status"], reported["done"]) == ("planned", None)
    assert {item["change"] for item in reported["plan"]["items"]} == {"created"}
    code, said = desk.run("2")
    assert code == 2
    assert "There is no terminal to ask on: repeat with --yes" in said
    assert desk.prod.library.ids("dashboard") == []
    code, said = desk.run("2", "--yes")
    assert code == 0, said
    assert "created" in said
    assert "of-production" not in said
    reported = desk.json("2")  # there is nothing to ask about
    assert reported["status"] == "nothing_to_do"
    assert {item["change"] for item in reported["plan"]["items"]} == {"unchanged"}


def test_conflicts_and_what_is_missing_end_with_their_own_code(desk: Desk) -> None:
    desk.json("2", "--yes")
    (some, *_) = [i for i in desk.json("2")["plan"]["items"] if i["type"] == "dashboard"]
    desk.prod.library.edit("dashboard", some["new_id"], title="[red]Mended\x1b[31m there[/red]")
    reported = desk.json("2", code=4)
    assert reported["status"] == "open"
    assert reported["plan"]["types"]["dashboard"]["conflict"] == 1
    code, said = desk.run("2", "--dry-run")
    assert (code, "--overwrite writes over it" in said, "\x1b" in said) == (4, True, False)
    assert desk.json("2", "--overwrite", "--yes")["status"] == "done"
    desk.prod.library.remove("explore", "model_1::explore_1")
    reported = desk.json("2", "--dry-run", code=4)
    assert [(m["kind"], m["name"]) for m in reported["plan"]["missing"]] == [
        ("explore", "model_1::explore_1")
    ]
    code, said = desk.run("2")
    assert (code, "not there: explore model_1::explore_1, on which depends" in said) == (4, True)


def test_what_cannot_be_used_is_one_line(desk: Desk, monkeypatch: pytest.MonkeyPatch) -> None:
    assert desk.run("999")[0] == 2
    code, said = desk.run("2", "--from", desk.prod.url)
    assert code == 2
    assert "refuses the login" in said
    monkeypatch.setenv("LOOKERSDK_TARGET_CLIENT_SECRET", "simulated-secret")
    code, said = desk.run("2", "--to", desk.dev.url)
    assert (code, "is both the Looker to promote from and" in said) == (2, True)
    monkeypatch.delenv("LOOKERSDK_TARGET_CLIENT_SECRET")
    code, said = desk.run("2")
    assert code == 2
    assert "LOOKERSDK_TARGET_CLIENT_SECRET is not set" in said
    assert "--to block:NAME" in said
