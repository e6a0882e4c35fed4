"""`headrace config …`: every setting, its value, and where that comes from."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import typer
from pydantic import SecretStr

from headrace.cli.common import Json, print_json, result_console, table_of
from headrace.logs.redaction import HIDDEN, safe_text
from headrace.settings import Settings, load_settings
from headrace.settings.files import places, read_files
from headrace.settings.model import origin_of, variable_of

app = typer.Typer(help="Settings: their values, and where they come from.", no_args_is_help=True)


@app.callback()
def _group() -> None:
    """A group, although there is one command in it."""


@app.command()
def show(as_json: Json = False) -> None:
    """Show every setting with its value and where that comes from; secrets are hidden.

    An option of a command goes before the environment, the environment before headrace.toml of the
    current folder, that before the user's, and that before the default.
    """
    settings = load_settings()
    files = read_files(Settings.model_fields)
    read = {file.path for file in files}
    looked = [{"path": str(path.absolute()), "read": path.absolute() in read} for path in places()]
    rows = [_row(settings, name, files) for name in Settings.model_fields]
    if as_json:
        print_json({"files": looked, "settings": rows})
        return
    shown = [
        {
            "setting": row["name"],
            "value": row["value"],
            "from": _in_short(row["place"]) or row["source"],
        }
        for row in rows
    ]
    result_console().print(table_of(shown, whole=("setting",)))
    for file in looked:
        typer.echo(f"{'read' if file['read'] else 'not there'}: {file['path']}")


def _row(settings: Settings, name: str, files: Any) -> dict[str, Any]:
    origin = origin_of(name, files)
    return {
        "name": name,
        "variable": variable_of(name),
        "value": _shown(getattr(settings, name)),
        "source": origin.kind,
        "place": origin.place,
        "help": Settings.model_fields[name].description,
    }


def _in_short(place: str) -> str:
    """A path as people write it, from the current folder or from their home."""
    for folder, short in ((Path.cwd(), ""), (Path.home(), "~/")):
        if place.startswith(f"{folder}/"):
            return short + place.removeprefix(f"{folder}/")
    return place


def _shown(value: Any) -> str | int | float:
    if isinstance(value, SecretStr):
        return HIDDEN if value.get_secret_value() else ""
    return value if isinstance(value, int | float) else safe_text(str(value))
