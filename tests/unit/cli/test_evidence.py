"""`headrace evidence key`: what it says, what it refuses; never a private key."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from click.testing import Result
from typer.testing import CliRunner

from headrace.cli.evidence import app
from headrace.errors import ConfigurationError
from headrace.evidence.exceptions import KeyMissing


@pytest.fixture(autouse=True)
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("HEADRACE_HOME", str(tmp_path))
    monkeypatch.delenv("HEADRACE_SIGNING_KEY", raising=False)
    monkeypatch.setenv("COLUMNS", "200")
    return tmp_path


def key(*arguments: str) -> Result:
    return CliRunner().invoke(app, ["key", *arguments])


def test_a_key_is_made_shown_and_rotated(home: Path) -> None:
    assert isinstance(key("show").exception, KeyMissing)
    made = json.loads(key("make", "--json").output)
    secret = (home / "evidence" / "signing-key.pem").read_text().splitlines()[1]
    asked = key("rotate")
    assert isinstance(asked.exception, ConfigurationError)
    assert "--yes" in str(asked.exception)
    rotated = json.loads(key("rotate", "--yes", "--json").output)
    said = [key("show"), key("show", "--json"), key("show", "--public")]
    assert json.loads(said[1].output)["signs"] == rotated["key_id"]
    assert [one["key_id"] for one in json.loads(said[2].output)["keys"]] == [
        made["key_id"],
        rotated["key_id"],
    ]
    lines = said[0].output.splitlines()
    assert any(made["key_id"] in line and "yes" not in line for line in lines)
    assert any(rotated["key_id"] in line and "yes" in line for line in lines)
    ids = (made["key_id"], rotated["key_id"])
    assert all(len(line.rstrip()) <= 80 for line in lines if any(each in line for each in ids))
    later = (home / "evidence" / "signing-key.pem").read_text().splitlines()[1]
    assert not any(text in one.output for text in (secret, later) for one in said)


def test_without_its_private_half_a_list_is_still_shown(home: Path) -> None:
    key("make")
    (home / "evidence" / "signing-key.pem").unlink()
    shown = key("show")
    assert shown.exit_code == 0
    assert "nothing can be signed" in shown.output
