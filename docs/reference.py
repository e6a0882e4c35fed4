"""The reference pages of the site, made from the code that they describe.

Each function gives one page as Markdown. Nothing of them is kept: `docs/site.py` writes them into
the folder that the site is built from.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterable, Iterator
from importlib import import_module
from pkgutil import iter_modules
from typing import Any

import click
from prefect import Flow
from pydantic import SecretStr
from typer.main import get_command

import flows
from headrace.cli.alarms.catalogue import ALARMS, in_words
from headrace.cli.exit_codes import Exit
from headrace.cli.main import app
from headrace.metrics import CATALOGUE
from headrace.settings import Settings
from headrace.settings.model import variable_of

_EXITS = {
    Exit.DONE: "Done.",
    Exit.FAILED: "Failed.",
    Exit.USAGE: "Usage or configuration; nothing was begun.",
    Exit.RUNNING_ELSEWHERE: "Another process already does this.",
    Exit.PARTIAL: "Partial: something failed or is missing, and is named.",
    Exit.INTERRUPTED: "Interrupted; what was complete is kept.",
}


def commands() -> str:
    """Every command with its arguments and options."""
    root: Any = get_command(app)
    context = click.Context(root, info_name="headrace")
    lines = ["# Commands", "", "Options that every command has:", "", *_options(root, context)]
    for level, path, command, own in _walk(root, context):
        usage = " ".join(command.collect_usage_pieces(own))
        lines += [f"{'#' * level} {path}", "", "```text", f"{path} {usage}", "```", ""]
        lines += [_prose(command.help or ""), "", *_options(command, own)]
    return "\n".join(lines)


def _walk(
    group: Any, context: click.Context, level: int = 2
) -> Iterator[tuple[int, str, Any, click.Context]]:
    for name in group.list_commands(context):
        # A lazy command is loaded when it is resolved.
        _, command, _ = group.resolve_command(context, [name])
        if command.hidden:
            continue
        own = click.Context(command, info_name=name, parent=context)
        yield level, own.command_path, command, own
        if hasattr(command, "list_commands"):
            yield from _walk(command, own, level + 1)


def _options(command: Any, context: click.Context) -> list[str]:
    records = (each.get_help_record(context) for each in command.params)
    return _table(("option", ""), ((_code(r[0]), r[1]) for r in records if r is not None))


def parameters() -> str:
    """The parameters of every flow, as the form and the API take them."""
    lines = [
        "# Parameters of flows",
        "",
        "As forms, `prefect deployment run -p NAME=VALUE` and the API take them.",
        "",
    ]
    for flow in _flows():
        lines += [f"## {flow.name}", "", _first_paragraph(flow.description or ""), ""]
        required = flow.parameters.required
        lines += _table(
            ("parameter", "type", "default", ""),
            (
                (
                    _code(name),
                    _kind(schema),
                    "required" if name in required else _code(_value(schema.get("default"))),
                    str(schema.get("description", "")),
                )
                for name, schema in flow.parameters.properties.items()
            ),
        )
    return "\n".join(lines)


def _flows() -> Iterator[Flow[Any, Any]]:
    for module in iter_modules(flows.__path__):
        held = vars(import_module(f"flows.{module.name}")).values()
        yield from (each for each in held if isinstance(each, Flow))


def settings() -> str:
    """Every setting: its variable, its default, what it says."""
    head = "# Settings\n\nWhat goes before what, and how to see it: [Settings](../settings.md).\n"
    rows = (
        (
            _code(variable_of(name)),
            "the user's state folder" if name == "home" else _code(_value(field.default)),
            field.description or "",
        )
        for name, field in Settings.model_fields.items()
    )
    return "\n".join([head, *_table(("variable", "default", ""), rows)])


def exit_codes() -> str:
    """What each exit code says."""
    rows = ((str(int(code)), _EXITS[code]) for code in Exit)
    return "\n".join(["# Exit codes", "", *_table(("exit code", ""), rows)])


def metrics() -> str:
    """Every metric in both systems."""
    head = "# Metrics\n\nHow to have them, and which to watch: [Metrics](../metrics.md).\n"
    rows = (
        (
            _code(each.prometheus_name),
            _code(each.cloud_name),
            each.kind.value,
            each.unit,
            ", ".join(each.labels),
            each.help,
        )
        for each in CATALOGUE
    )
    columns = ("Prometheus", "CloudWatch", "kind", "unit", "labels", "")
    return "\n".join([head, *_table(columns, rows)])


def alarms() -> str:
    """Every alarm, with the events that it watches."""
    head = "# Alarms\n\nTo install them, and the payload of events: [Alarms](../alarms.md).\n"
    rows = (
        (
            _code(each.key),
            each.description.format(within=in_words(each.within)),
            _events(each.after),
            _events(each.expect),
        )
        for each in ALARMS
    )
    columns = ("alarm", "goes off when", "begins to wait at", "watches for")
    return "\n".join([head, *_table(columns, rows)])


#: By the name of the file.
PAGES: dict[str, Callable[[], str]] = {
    "commands": commands,
    "parameters": parameters,
    "settings": settings,
    "exit-codes": exit_codes,
    "metrics": metrics,
    "alarms": alarms,
}


def _events(names: Iterable[str]) -> str:
    return ", ".join(_code(name) for name in sorted(names))


def _kind(schema: dict[str, Any]) -> str:
    kinds = [schema, *schema.get("anyOf", [])]
    return " or ".join(str(each["type"]) for each in kinds if "type" in each) or "object"


def _value(value: Any) -> str:
    if isinstance(value, SecretStr):
        value = value.get_secret_value()
    return value if isinstance(value, str) else json.dumps(value)


def _first_paragraph(text: str) -> str:
    return _prose(text.strip().split("\n\n")[0])


def _prose(text: str) -> str:
    """Text of a help, which is not Markdown: only code keeps its meaning."""
    parts = re.split(r"(`[^`]*`)", text)
    return "".join(p if p.startswith("`") else re.sub(r"([*_<\[\]])", r"\\\1", p) for p in parts)


def _code(text: str) -> str:
    return f"`{text}`" if text else ""


def _table(columns: tuple[str, ...], rows: Iterable[tuple[str, ...]]) -> list[str]:
    def line(cells: Iterable[str]) -> str:
        said = (" ".join(each.split()).replace("|", "\\|") for each in cells)
        return f"| {' | '.join(said)} |"

    body = [line([_as_is(each) for each in row]) for row in rows]
    return [line(columns), line("---" for _ in columns), *body, ""] if body else []


def _as_is(cell: str) -> str:
    return cell if re.fullmatch(r"(`[^`]*`(, )?)+", cell) else _prose(cell)
