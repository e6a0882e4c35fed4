"""Commands that are imported when they are used: help and completion need only their names.

Importing all of them takes more than a second, since they bring Arrow, Prefect's settings and the
clients of servers with them.
"""

from __future__ import annotations

import inspect
from collections.abc import Mapping
from dataclasses import dataclass
from importlib import import_module
from typing import Any, ClassVar

import typer
from typer.core import TyperCommand, TyperGroup
from typer.main import get_group


@dataclass(frozen=True, slots=True)
class Lazy:
    """A command that is not imported yet.

    Args:
        target: MODULE:NAME of its function, or of its own `typer.Typer`.
        help: what its own help begins with; shown in the list of commands.
    """

    target: str
    help: str

    def load(self, name: str) -> Any:
        """Import it, as the command `name`."""
        module, _, attribute = self.target.partition(":")
        found = getattr(import_module(module), attribute)
        parent = typer.Typer(add_completion=False, rich_markup_mode="rich")
        parent.callback()(lambda: None)
        if isinstance(found, typer.Typer):
            parent.add_typer(found, name=name)
        else:
            parent.command(name)(found)
        loaded = get_group(parent).commands[name]
        _fill_paragraphs(loaded)
        return loaded


def _fill_paragraphs(command: Any) -> None:
    """Let the terminal's width break the lines of a help; typer keeps those of the docstring."""
    text = inspect.cleandoc(command.help or "")
    command.help = "\n\n".join(" ".join(each.split()) for each in text.split("\n\n"))
    for each in getattr(command, "commands", {}).values():
        _fill_paragraphs(each)


class LazyGroup(TyperGroup):
    """A group whose commands are the `lazy` ones; a subclass lists them."""

    lazy: ClassVar[Mapping[str, Lazy]] = {}

    def __init__(self, **attrs: Any) -> None:
        super().__init__(**attrs)
        for name, command in self.lazy.items():
            self.add_command(TyperCommand(name, help=command.help))

    def resolve_command(self, ctx: Any, args: list[str]) -> tuple[str | None, Any, list[str]]:
        """The command that is to run, or whose options are to be completed: now it is needed."""
        name, command, rest = super().resolve_command(ctx, args)
        if name is not None and name in self.lazy:
            command = self.lazy[name].load(name)
        return name, command, rest
