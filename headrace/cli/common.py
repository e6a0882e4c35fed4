"""Options that every command takes, wherever they stand on the command line."""

from __future__ import annotations

import os
from enum import StrEnum
from typing import Annotated, Any

import typer
from typer.core import TyperGroup

from headrace.errors import ConfigurationError, HeadraceError


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
    Format | None, typer.Option(help="Of log lines on standard error. [HEADRACE_LOG_FORMAT]")
]
LogLevel = Annotated[Level | None, typer.Option(help="From which level on. [HEADRACE_LOG_LEVEL]")]

_COMMON = ("--log-format", "--log-level")


class _Told:
    """What outlives the command's context, for the error that ended it."""

    log_format = "human"


_told = _Told()


class CommonOptionsGroup(TyperGroup):
    """Takes the common options behind a subcommand as well, where people write them."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        """Move the common options to the front."""
        return super().parse_args(ctx, hoisted(args))


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

    # Help and completion, which end before this, need neither settings nor logs.
    from headrace.logs import written
    from headrace.settings import load_settings

    ctx.call_on_close(restore)
    _told.log_format = str(log_format or "human")
    os.environ.update({name: str(value) for name, value in given.items() if value})
    try:
        settings = load_settings()
    except ConfigurationError:
        # The command says so itself where it needs them; some, like `doctor`, have to go on.
        return
    _told.log_format = settings.log_format
    ctx.with_resource(written(settings))


def logs_are_json() -> bool:
    """Whether standard error belongs to machines, by what the last command was told."""
    return _told.log_format == "json"


def say_error(error: HeadraceError) -> None:
    """One line about an error that ends the command, in the format of the log lines."""
    if logs_are_json():
        from headrace.logs import json_line
        from headrace.logs.redaction import safe_text

        typer.echo(json_line("error", safe_text(str(error)), facts={"event": "failed"}), err=True)
    else:
        typer.echo(f"headrace: {error}", err=True)
