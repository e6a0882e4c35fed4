"""What commands share: options, `--json`, tables, questions, the line of an error."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from difflib import get_close_matches
from enum import StrEnum
from typing import TYPE_CHECKING, Annotated, Any

import typer
from typer.core import TyperGroup

from headrace.errors import ConfigurationError, HeadraceError

if TYPE_CHECKING:
    from rich.console import Console

    from headrace.cli.tables import FittedTable

Json = Annotated[bool, typer.Option("--json", help="One JSON object on stdout, nothing else.")]
Yes = Annotated[bool, typer.Option("--yes", "-y", help="Do not ask.")]
LakeOption = Annotated[
    str, typer.Option(help="A folder, s3://bucket/prefix or block:NAME. [HEADRACE_LAKE]")
]


def print_json(value: Any) -> None:
    """One JSON value on stdout; in ASCII, since names may hold what no terminal can print."""
    typer.echo(json.dumps(value))


def confirm(question: str, *, refusal: str, hint: str = "repeat with --yes") -> None:
    """Ask, on standard error; end the command at a no.

    Raises:
        ConfigurationError: `refusal` and `hint`, since there is no terminal to ask on.
    """
    if not has_terminal():
        raise ConfigurationError(refusal, hint=f"There is no terminal to ask on: {hint}")
    typer.confirm(question, abort=True, err=True)


def has_terminal() -> bool:
    """Whether a question can be answered."""
    return sys.stdin.isatty()


#: Of a console in a pipe: there is no edge at which anything had to be broken.
_UNLIMITED = 100_000


def result_console(*, stderr: bool = False) -> Console:
    """Where results are printed: as wide as the terminal; in a pipe as wide as they need.

    `COLUMNS` says how wide a pipe is all the same.
    """
    from rich.console import Console

    console = Console(stderr=stderr)
    if not console.file.isatty() and "COLUMNS" not in os.environ:
        console.width = _UNLIMITED
    return console


def table_of(
    rows: Sequence[dict[str, Any]],
    title: str = "",
    *,
    whole: Sequence[str] = (),
    edge: bool = True,
) -> FittedTable:
    """Rows as a table, for people. What comes from outside is text, and no markup.

    Args:
        rows: at least one; their keys are the columns, with blanks for underscores.
        title: above the table.
        whole: columns that are not broken into lines; numbers never are.
        edge: whether there is space around it.
    """
    from headrace.cli.tables import Column, FittedTable

    columns = []
    for name in rows[0]:
        numbers = all(isinstance(row[name], int | float) or row[name] is None for row in rows)
        columns.append(
            Column(name.replace("_", " "), right=numbers, whole=numbers or name in whole)
        )
    return FittedTable(
        columns,
        [[_cell(name, value) for name, value in row.items()] for row in rows],
        title,
        [COLOURS.get(str(row.get("status")), "") for row in rows],
        edge=edge,
    )


def _cell(name: str, value: object) -> str:
    if value is None:
        return ""
    if name == "status":
        return str(value).replace("_", " ")
    return f"{value:,}" if isinstance(value, int | float) else str(value)


COLOURS = {"done": "green", "partial": "yellow", "failed": "red", "running_elsewhere": "cyan"}


class Format(StrEnum):
    """As `Settings.log_format`."""

    HUMAN = "human"
    JSON = "json"


class Level(StrEnum):
    """As `Settings.log_level`."""

    DEBUG = "debug"
    INFO = "info"
    WARNING = "warning"
    ERROR = "error"


LogFormat = Annotated[
    Format | None, typer.Option(help="Format of log lines on standard error. [HEADRACE_LOG_FORMAT]")
]
LogLevel = Annotated[
    Level | None, typer.Option(help="Lowest level of log lines. [HEADRACE_LOG_LEVEL]")
]

_COMMON = ("--log-format", "--log-level")
#: How alike an option has to be, of 1, to be suggested for another.
_CLOSE = 0.7
#: Whether the help of a command is asked for, in the context's `meta`.
_HELP = "headrace.help"


#: Outlives the command's context, for the error that ended it.
_log_format = "human"


class CommonOptionsGroup(TyperGroup):
    """Takes the common options behind a subcommand as well, where people write them."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        """Move the common options to the front."""
        ctx.meta[_HELP] = "--help" in args
        with _fair_suggestions():
            return super().parse_args(ctx, hoisted(args))

    def invoke(self, ctx: Any) -> Any:
        """Run the command that is named; its options are read in here."""
        with _fair_suggestions():
            return super().invoke(ctx)


@contextmanager
def _fair_suggestions() -> Iterator[None]:
    """Suggest what is close to an unknown option: `--` in front of both makes nothing so."""
    try:
        yield
    except Exception as error:
        # Typer's own copy of the class has no public name.
        asked, known = (getattr(error, name, None) for name in ("option_name", "possibilities"))
        if asked and known:
            bare = {name.lstrip("-"): name for name in known}
            close = get_close_matches(asked.lstrip("-"), bare, cutoff=_CLOSE)
            vars(error)["possibilities"] = [bare[name] for name in close]
        raise


def asks_for_help(ctx: typer.Context) -> bool:
    """Whether the command ends with its help, which needs neither settings nor logs."""
    return bool(ctx.meta.get(_HELP))


def hoisted(args: list[str]) -> list[str]:
    """The arguments with the common options and their values in front; none behind `--` moves."""
    end = args.index("--") if "--" in args else len(args)
    front: list[str] = []
    rest: list[str] = []
    words = iter(args[:end])
    for word in words:
        if word in _COMMON:
            front += [word, *([value] if (value := next(words, None)) is not None else [])]
        elif word.startswith(tuple(f"{name}=" for name in _COMMON)):
            front.append(word)
        else:
            rest.append(word)
    return [*front, *rest, *args[end:]]


def set_up_logs(ctx: typer.Context, log_format: Format | None, log_level: Level | None) -> None:
    """Have log lines written until the command ends.

    The options become settings of this process, so that whatever it starts has them, too.
    """
    given = {"HEADRACE_LOG_FORMAT": log_format, "HEADRACE_LOG_LEVEL": log_level}
    before = {name: os.environ.get(name) for name in given}

    def restore() -> None:
        for name, value in before.items():
            os.environ.pop(name, None)
            if value is not None:
                os.environ[name] = value

    global _log_format
    ctx.call_on_close(restore)
    _log_format = str(log_format or "human")
    if asks_for_help(ctx):
        return
    # Imported when they are needed: help and completion are quick without them.
    from headrace.logs import written
    from headrace.settings import load_settings

    os.environ.update({name: str(value) for name, value in given.items() if value})
    try:
        settings = load_settings()
    except ConfigurationError:
        # The command says so itself where it needs them; some, like `doctor`, have to go on.
        return
    _log_format = settings.log_format
    ctx.with_resource(written(settings))


def logs_are_json() -> bool:
    """Whether the last command writes its log lines as JSON: standard error is for machines."""
    return _log_format == "json"


def say_error(error: HeadraceError) -> None:
    """One line about an error that ends the command, in the format of the log lines."""
    if logs_are_json():
        from headrace.logs import json_line
        from headrace.logs.redaction import safe_text

        typer.echo(json_line("error", safe_text(str(error)), facts={"event": "failed"}), err=True)
    else:
        typer.echo(f"headrace: {error}", err=True)
