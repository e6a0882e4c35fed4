"""`headrace evidence …`: the keys that sign heads of logs and manifests of lakes."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from typing import Annotated, Any

import typer

from headrace.cli.common import Json, Yes, confirm, print_json, result_console, table_of
from headrace.evidence.exceptions import KeyMissing
from headrace.evidence.key_files import KeyFile
from headrace.evidence.keys import (
    KeyPlace,
    PublicKey,
    SigningKey,
    make_key,
    rotate_key,
    signing_key,
)
from headrace.extras import require
from headrace.pull.request import BLOCK_PREFIX
from headrace.settings import load_settings

app = typer.Typer(
    help="Evidence: the keys that sign heads of logs and manifests of lakes.", no_args_is_help=True
)
key_app = typer.Typer(help="Signing keys: make, rotate, show.", no_args_is_help=True)
app.add_typer(key_app, name="key")

KeyOption = Annotated[
    str, typer.Option("--key", help="A file or block:NAME. [HEADRACE_SIGNING_KEY]")
]


@app.callback()
def evidence() -> None:
    """Evidence: the keys that sign heads of logs and manifests of lakes."""


@key_app.command("make")
def make(key: KeyOption = "", as_json: Json = False) -> None:
    """Make a signing key where there is none."""
    _change(key, make_key, as_json, "made")


@key_app.command("rotate")
def rotate(key: KeyOption = "", yes: Yes = False, as_json: Json = False) -> None:
    """Make the successor of the key; what was signed before stays valid.

    The key before it endorses its successor, then its private half is removed for good.
    """
    with key_at(key) as place:
        before = signing_key(place)
    if not yes:
        confirm(
            f"Replace key {before.key_id} in {place.where} by a new one?",
            refusal=f"key {before.key_id} in {place.where} was not replaced",
        )
    _change(key, rotate_key, as_json, "rotated")


@key_app.command("show")
def show(
    key: KeyOption = "",
    public: Annotated[
        bool,
        typer.Option("--public", help="Print the list of public keys as a file for verifiers."),
    ] = False,
    as_json: Json = False,
) -> None:
    """Show the public keys, and which one signs; never a private one."""
    with key_at(key) as place:
        listed = place.public()
        if not listed.keys:
            raise KeyMissing(place.where)
        if public:
            typer.echo(json.dumps(listed.as_dict(), indent=1))
            return
        signs: SigningKey | None = place.private()
    active = signs.key_id if signs else None
    if as_json:
        print_json({"key": place.where, "signs": active, **listed.as_dict()})
        return
    result_console().print(
        table_of([_row(one, active) for one in listed.keys], place.where, whole=_WHOLE)
    )
    if active is None:
        typer.echo(f"no private key is in {place.where}: nothing can be signed", err=True)


_WHOLE = ("key", "made", "endorsed_by")


def _row(key: PublicKey, active: str | None) -> dict[str, Any]:
    return {
        "key": key.key_id,
        "made": key.made_at[:10],
        "endorsed_by": key.endorsed.key_id[:8] if key.endorsed else "",
        "signs": "yes" if key.key_id == active else "",
    }


def _change(option: str, change: Callable[..., PublicKey], as_json: bool, outcome: str) -> None:
    with key_at(option) as place:
        key = change(place, now=datetime.now(UTC))
    if as_json:
        print_json({"key": place.where, "outcome": outcome, **key.as_dict()})
        return
    typer.echo(f"{outcome} key {key.key_id} in {place.where}")
    if key.endorsed is None:
        typer.echo("give this id to those who verify: they trust this key and its successors")


@contextmanager
def key_at(option: str) -> Iterator[KeyPlace]:
    """The place that `--key` names. Prefect is needed for a block only.

    Raises:
        ExtraMissing: the extra `evidence` is not installed.
    """
    require("evidence")
    settings = load_settings()
    location = option or settings.signing_key_location
    if not location.startswith(BLOCK_PREFIX):
        yield KeyFile(location)
        return
    from headrace.cli.server import api_for_run  # not for help

    with api_for_run(settings.home, say=lambda _line: None):
        from blocks.resolve import signing_key_of

        yield signing_key_of(location)
