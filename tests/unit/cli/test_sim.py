"""`headrace sim`: what it cannot read is named before anything is started."""

from __future__ import annotations

from pathlib import Path

import pytest
from typer.testing import CliRunner

from headrace.cli.sim import app
from headrace.errors import ConfigurationError


@pytest.mark.parametrize(
    ("options", "named"),
    [
        (["--product", "BTC USD:5"], "BTC USD"),
        (["--rate", "fast"], "fast"),
        (["--window", "1.5/s"], "whole"),
        (["--retry-after", "later"], "later"),
        (["--latency", "normal"], "normal"),
        (["--fault", "explode"], "explode"),
        (["--now", "yesterday"], "yesterday"),
    ],
)
def test_bad_options_are_configuration_errors(options: list[str], named: str) -> None:
    result = CliRunner().invoke(app, ["exchange", *options])
    assert isinstance(result.exception, ConfigurationError)
    assert named in str(result.exception)


@pytest.mark.parametrize("text", ["{", "[]", '{"colour": 1}'])
def test_a_bad_file_is_a_configuration_error(tmp_path: Path, text: str) -> None:
    config = tmp_path / "sim.json"
    config.write_text(text)
    result = CliRunner().invoke(app, ["exchange", "--config", str(config)])
    assert isinstance(result.exception, ConfigurationError)


@pytest.mark.parametrize(
    "options", [["--port", "70000"], ["--burst", "0"], ["--config", "/nowhere"]]
)
def test_out_of_bounds_is_a_usage_error(options: list[str]) -> None:
    assert CliRunner().invoke(app, ["exchange", *options]).exit_code == 2


@pytest.mark.parametrize(
    ("options", "named"),
    [
        (["--window", "fast"], "fast"),
        (["--inbound", "normal"], "normal"),
        (["--fault", "explode"], "explode"),
        (["--keys", "3", "--key", "mine"], "--keys"),
        (["--key", "mine", "--key", "mine"], "same"),
    ],
)
def test_bad_options_of_the_keyed_exchange_are_named(options: list[str], named: str) -> None:
    result = CliRunner().invoke(app, ["keyed-exchange", *options])
    assert isinstance(result.exception, ConfigurationError)
    assert named in str(result.exception)
