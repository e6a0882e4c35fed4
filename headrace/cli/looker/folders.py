"""`headrace looker unpack|pack`: the vault as files, and edits of them back into it."""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path
from typing import Annotated

import typer

from headrace.cli.exits import Exit
from headrace.cli.looker.options import (
    Json,
    Types,
    VaultPath,
    known_types,
    one_line,
    opened,
    print_json,
)
from headrace.looker.folder import pack as pack_folder
from headrace.looker.folder import unpack as unpack_folder

Folder = Annotated[Path, typer.Argument(help="Of the files, {type}/{id}.json.")]


def unpack(
    folder: Folder,
    types: Types = None,
    deleted: Annotated[
        bool, typer.Option("--deleted", help="Also what is deleted on the server.")
    ] = False,
    force: Annotated[bool, typer.Option("--force", help="Overwrite edits.")] = False,
    vault: VaultPath = None,
    as_json: Json = False,
) -> None:
    """Write each item to {type}/{id}.json, the bytes as the server sent them."""
    wanted = known_types(types)
    with opened(vault, check=True) as source:
        done = unpack_folder(source, folder, types=wanted, deleted=deleted, force=force)
    if as_json:
        print_json({"folder": str(folder), **asdict(done)})
    else:
        typer.echo(
            f"{folder}: {done.written:,} written, {done.unchanged:,} as they were, "
            f"{done.removed:,} outdated ones removed"
        )


def pack(
    folder: Folder,
    types: Types = None,
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Say what would be taken, and take nothing.")
    ] = False,
    force: Annotated[
        bool, typer.Option("--force", help="Also take edits of versions that are outdated.")
    ] = False,
    vault: VaultPath = None,
    as_json: Json = False,
) -> None:
    """Take edited files back into the vault as new versions; `restore` brings them to Looker."""
    wanted = known_types(types)
    with opened(vault, check=True) as target:
        done = pack_folder(target, folder, types=wanted, dry_run=dry_run, force=force)
    if as_json:
        print_json({"folder": str(folder), "dry_run": dry_run, **asdict(done)})
    else:
        verb = "would become" if dry_run else "became"
        for item in done.changed:
            typer.echo(f"{one_line(item)} {verb} a new version")
        for item in done.new:
            typer.echo(f"{one_line(item)} {verb} a new item")
        for path, reason in done.refused:
            typer.echo(f"{path} was not taken: {one_line(reason, longest=300)}", err=True)
        typer.echo(
            f"{len(done.changed):,} changed, {len(done.new):,} new, {done.unchanged:,} as they "
            f"were, {len(done.refused):,} refused"
        )
    if done.refused:
        raise typer.Exit(Exit.PARTIAL)
