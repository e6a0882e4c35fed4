"""`headrace audit` refuses what cannot be meant before it starts anything."""

from __future__ import annotations

import inspect
from pathlib import Path

import pytest
import typer
from typer.testing import CliRunner

from headrace.cli.pipelines import audit
from headrace.errors import ConfigurationError


@pytest.fixture(autouse=True)
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("HEADRACE_HOME", str(tmp_path / "home"))
    return tmp_path / "home"


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["--heal", "--offline"], "exclude each other"),
        (["--lag", "15m", "--offline"], "exclude each other"),
        (["--lag", "soon"], "lag: 'soon' is not a length of time"),
        (["BTC USD"], "'BTC USD' is no product id"),
        (["--rate", "0/s"], "rate"),
        (["--base-url", "ftp://x"], "no http or https URL"),
        (["--workers", "50", "--chunk-concurrency", "50"], "2500 requests in flight"),
    ],
)
def test_what_cannot_be_asked(home: Path, arguments: list[str], said: str) -> None:
    app = typer.Typer()
    app.command()(audit)
    error = CliRunner().invoke(app, arguments).exception
    assert isinstance(error, ConfigurationError)
    assert said in str(error)
    assert not home.exists()


@pytest.mark.flows
def test_every_option_is_a_parameter_of_the_flow() -> None:
    from flows.audit import audit as flow

    options = set(inspect.signature(audit).parameters) - {"as_json"}
    assert options == set(inspect.signature(flow.fn).parameters)
