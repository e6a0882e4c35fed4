"""`headrace requests graveyard`: what it says."""

from __future__ import annotations

from pathlib import Path

import pytest
from typer.testing import CliRunner

from headrace.cli.requests import app
from headrace.delivery.journal import Journal
from headrace.delivery.model import ApiRequest, Outcome
from headrace.settings import load_settings


@pytest.fixture(autouse=True)
def buried(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Two requests in the graveyard; what became of the second is not known."""
    monkeypatch.setenv("HEADRACE_HOME", str(tmp_path))
    with Journal(load_settings().journal_of("orders")) as journal:
        refused, unknown = journal.accept([ApiRequest("/a"), ApiRequest("/b", "POST")])
        for each in (refused, unknown):
            assert journal.take(each)
        journal.end(refused, Outcome.GRAVEYARD)
        journal.end(unknown, Outcome.GRAVEYARD, unknown=True)


def replay(*arguments: str) -> list[str]:
    done = CliRunner().invoke(app, ["graveyard", "replay", "--queue", "orders", *arguments])
    assert done.exit_code == 0
    return done.stdout.splitlines()


def test_a_replay_names_the_command_that_sends_and_what_is_left() -> None:
    assert replay() == [
        "1 request is queued again; `headrace requests send --queue orders` sends it",
        "1 left: the server may have carried out what it asks for (--unknown)",
    ]


def test_ids_that_are_not_queued_again_are_counted() -> None:
    assert replay("1", "2", "77")[1:] == [
        "2 of the ids named were not: not in the graveyard, or the server may have carried "
        "them out (--unknown)"
    ]
    assert len(replay("2", "--unknown")) == 1
