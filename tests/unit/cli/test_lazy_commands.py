"""What help, version and completion need not import, and that commands are as their list says."""

from __future__ import annotations

import ast
import json
import os
import re
import subprocess
import sys
from collections.abc import Iterator
from importlib import import_module
from pathlib import Path
from typing import Any

import pytest
from typer import Context
from typer.main import get_group

import flows
from headrace import cli
from headrace.cli import looker, main, sot
from headrace.cli.lazy_commands import LazyGroup

HEAVY = [
    "prefect",
    "pyarrow",
    "boto3",
    "botocore",
    "pydantic_settings",
    "looker_sdk",
    "cassandra",
    "numpy",
    "pandas",
    "pyrate_limiter",
    "urllib3",
]
PROGRAM = """
import atexit, json, sys
heavy = sys.argv.pop().split(",")
def tell():
    sys.stderr.write(json.dumps([name for name in heavy if name in sys.modules]))
atexit.register(tell)
from headrace.cli.entry import main
main()
"""


def completing(words: str) -> dict[str, str]:
    """What a shell asks with."""
    return {
        "_HEADRACE_COMPLETE": "complete_bash",
        "COMP_WORDS": words,
        "COMP_CWORD": str(len(words.split(" ")) - 1),
    }


@pytest.mark.parametrize(
    ("arguments", "environment", "said"),
    [
        (["--help"], {}, "backfill"),
        ([], {}, "backfill"),
        (["--version"], {}, "headrace "),
        ([], completing("headrace back"), "backfill"),
        ([], completing("headrace looker ext"), "extract"),
        ([], completing("headrace sot ver"), "verify"),
        ([], completing("headrace backfill --wor"), "--workers"),
        ([], completing("headrace looker extract --ty"), "--types"),
        ([], completing("headrace sot write --sto"), "--store"),
        (["backfill", "--help"], {}, "--workers"),
        (["ingest", "--help"], {}, "--workers"),
        (["audit", "--help"], {}, "--heal"),
        (["check", "--help"], {}, "Usage"),
        (["looker", "extract", "--help"], {}, "--vault"),
        (["looker", "list", "--help"], {}, "--vault"),
        (["requests", "send", "--help"], {}, "--ttl-s"),
        (["sot", "write", "--help"], {}, "--store"),
        (["sot", "verify", "--help"], {}, "--store"),
        (["sot", "recover", "--help"], {}, "--store"),
        (["sot", "migrate", "--help"], {}, "Usage"),
    ],
)
def test_nothing_heavy_is_imported(
    arguments: list[str], environment: dict[str, str], said: str
) -> None:
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM, *arguments, ",".join(HEAVY)],
        env={**os.environ, **environment},
        capture_output=True,
        text=True,
    )
    assert said in done.stdout
    assert json.loads(done.stderr) == []


def test_a_command_imports_what_it_needs() -> None:
    """The test above looks at the right names."""
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM, "demo", "--help", ",".join(HEAVY)],
        capture_output=True,
        text=True,
    )
    assert "pyarrow" in json.loads(done.stderr)


def commands() -> Iterator[tuple[str, type[LazyGroup], str]]:
    for group in (main._Commands, looker._Commands, sot._Commands):
        for name in group.lazy:
            yield f"{group.__module__} {name}", group, name


@pytest.mark.parametrize(
    ("group", "name"),
    [pytest.param(group, name, id=title) for title, group, name in commands()],
)
def test_the_list_of_commands_says_what_their_help_begins_with(
    group: type[LazyGroup], name: str
) -> None:
    loaded = group.lazy[name].load(name)
    assert loaded.name == name
    first, _, _ = loaded.help.partition("\n\n")
    assert " ".join(first.split()) == group.lazy[name].help


def test_a_mistyped_command_is_answered_with_the_nearest() -> None:
    group = get_group(main.app)
    with pytest.raises(Exception, match="Did you mean 'backfill'"):
        group.main(["backfil"], standalone_mode=False)


def test_a_help_has_no_line_breaks_within_its_paragraphs() -> None:
    broken = [
        each.name
        for group in (main._Commands, looker._Commands, sot._Commands)
        for name in group.lazy
        for each in with_those_below(group.lazy[name].load(name))
        if "\n" in each.help.replace("\n\n", "")
    ]
    assert broken == []


def with_those_below(command: Any) -> Iterator[Any]:
    yield command
    for each in getattr(command, "commands", {}).values():
        yield from with_those_below(each)


@pytest.mark.parametrize(
    "flow", sorted(Path(flows.__path__[0]).glob("*.py")), ids=lambda it: it.stem
)
def test_a_flow_that_is_run_as_a_module_names_a_command_that_exists(flow: Path) -> None:
    for call in ast.walk(ast.parse(flow.read_text())):
        if (
            isinstance(call, ast.Call)
            and isinstance(call.func, ast.Name)
            and call.func.id == "run_command"
        ):
            words = [ast.literal_eval(each) for each in call.args]
            group = get_group(main.app)
            while words:
                name, group, words = group.resolve_command(Context(group), words)
                assert name


def test_each_pipeline_command_names_a_flow_that_exists() -> None:
    named = [
        call.args[0].value
        for path in Path(cli.__path__[0]).rglob("*.py")
        for call in ast.walk(ast.parse(path.read_text()))
        if isinstance(call, ast.Call)
        and isinstance(call.func, ast.Name)
        and call.func.id == "pipeline_command"
        and isinstance(call.args[0], ast.Constant)
    ]
    assert len(named) >= 8
    for flow in named:
        assert callable(getattr(import_module(f"flows.{flow}"), str(flow)))


@pytest.mark.parametrize(
    ("words", "suggested"),
    [
        (["status", "--wrong"], []),
        (["status", "--jsn"], ["--json"]),
        (["backfill", "--jsn"], ["--json"]),
        (["lease", "list", "--stroe", "x"], ["--store"]),
        (["--log-fromat", "json", "status"], ["--log-format"]),
    ],
)
def test_only_an_option_that_is_close_is_suggested(
    words: list[str], suggested: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    """`--` in front of both makes two names alike that are not."""
    with pytest.raises(SystemExit) as ended:
        main.app(words, prog_name="headrace")

    said = capsys.readouterr().err
    assert ended.value.code == 2
    asked = next(word for word in words if word.startswith("--"))
    assert [word for word in re.findall(r"--[a-z-]+", said) if word != asked] == suggested, said
