"""`--log-format` and `--log-level`, wherever they stand; errors in the format of the lines."""

import json
import sys

import pytest

from headrace.cli.common import hoisted
from headrace.cli.main import main


@pytest.mark.parametrize(
    ("given", "taken"),
    [
        (["a", "--log-format", "json", "b"], ["--log-format", "json", "a", "b"]),
        (["a", "--log-level=debug"], ["--log-level=debug", "a"]),
        (["--log-format", "json", "a"], ["--log-format", "json", "a"]),
        (["a", "--", "--log-format", "json"], ["a", "--", "--log-format", "json"]),
        (["a", "--log-format"], ["--log-format", "a"]),
        (["a", "--log-formats", "x"], ["a", "--log-formats", "x"]),
    ],
)
def test_common_options_come_first(given, taken):
    assert hoisted(given) == taken


@pytest.fixture
def command(monkeypatch, capsys, tmp_path):
    monkeypatch.setenv("HEADRACE_HOME", str(tmp_path))

    def run(*arguments):
        monkeypatch.setattr(sys, "argv", ["headrace", *arguments])
        with pytest.raises(SystemExit) as ended:
            main()
        return ended.value.code, capsys.readouterr()

    return run


def test_an_error_is_a_json_line_where_lines_are_json(command):
    code, said = command("lease", "release", "absent", "--log-format", "json")

    assert code == 2
    [line] = map(json.loads, said.err.splitlines())
    assert line["level"] == "error"
    assert "absent" in line["message"]
    assert "run" in line


def test_and_plain_words_elsewhere(command):
    _, said = command("lease", "release", "absent")

    assert said.err.startswith("headrace: ")


def test_the_environment_says_the_same(command, monkeypatch):
    monkeypatch.setenv("HEADRACE_LOG_FORMAT", "json")
    _, said = command("lease", "release", "absent")

    assert json.loads(said.err)["level"] == "error"


def test_an_unknown_format_is_a_usage_error(command, monkeypatch):
    assert command("lease", "list", "--log-format", "xml")[0] == 2
    monkeypatch.setenv("HEADRACE_LOG_FORMAT", "xml")
    code, said = command("lease", "list")
    assert code == 2
    assert "HEADRACE_LOG_FORMAT" in said.err
    assert "Traceback" not in said.err


def test_the_version_is_printed(command):
    code, said = command("--version")

    assert code == 0
    assert said.out.startswith("headrace ")
