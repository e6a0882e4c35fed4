"""Options and openings that the commands on a vault share."""

from __future__ import annotations

import json
from typing import Annotated, Any

import typer

from headrace.looker.content import TYPES, content_of
from headrace.looker.vault import Vault
from headrace.settings import load_settings

VaultPath = Annotated[
    str | None,
    typer.Option(
        "--vault",
        envvar="HEADRACE_LOOKER_VAULT",
        help="The vault, a SQLite file; default data/looker.sqlite.",
    ),
]
Json = Annotated[bool, typer.Option("--json", help="One JSON object on stdout, nothing else.")]
Types = Annotated[
    list[str] | None,
    typer.Option(
        "--types",
        "--type",
        "-t",
        help=f"Of these types only; repeatable or joined by commas. {', '.join(TYPES)}.",
    ),
]
TypeArgument = Annotated[str, typer.Argument(metavar="TYPE", help=f"One of {', '.join(TYPES)}.")]
IdArgument = Annotated[str, typer.Argument(metavar="ID", help="Its id, as `list` shows it.")]


def vault_path(path: str | None) -> str:
    """The path that was given, or the one of the settings."""
    return path or load_settings().looker_vault


def opened(path: str | None, *, check: bool = False) -> Vault:
    """The vault that the options name.

    Raises:
        VaultMissing and its kin, one line each.
    """
    return Vault.open(vault_path(path), check=check)


def known_types(types: list[str] | None) -> tuple[str, ...]:
    """The types that were named, each once; empty for all. `dashboards` is what people write.

    Raises:
        UnknownType: naming the twelve.
    """
    names = [name.strip() for text in types or () for name in text.split(",")]
    singular = [n.removesuffix("s") if n.removesuffix("s") in TYPES else n for n in names if n]
    return tuple(dict.fromkeys(content_of(name).type for name in singular))


def known_type(name: str) -> str:
    """The one type that an argument names.

    Raises:
        UnknownType: naming the twelve.
    """
    found = known_types([name])
    return found[0] if len(found) == 1 else content_of(name).type


def print_json(value: Any) -> None:
    """One JSON object on stdout; in ASCII, since names may hold what no terminal can print."""
    typer.echo(json.dumps(value))


def one_line(text: str | None, *, longest: int = 80) -> str:
    """A name from outside, for a line of a terminal: no control characters, no endless text."""
    clean = "".join(c if c.isprintable() else "\N{REPLACEMENT CHARACTER}" for c in text or "")
    return clean if len(clean) <= longest else f"{clean[: longest - 1]}…"
