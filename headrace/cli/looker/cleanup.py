"""`headrace looker cleanup`: let go of old history."""

from __future__ import annotations

from dataclasses import asdict
from typing import Annotated

import typer

from headrace.cli.looker.connecting import my_turn
from headrace.cli.looker.options import Json, VaultPath, opened, print_json


def cleanup(
    keep_days: Annotated[
        float, typer.Option(min=0, help="What was replaced less than so many days ago stays.")
    ],
    keep_versions: Annotated[
        int, typer.Option(min=1, help="So many of the newest versions stay whatever their age.")
    ] = 1,
    gone: Annotated[
        bool, typer.Option("--gone", help="Also items that were proven gone that long ago.")
    ] = False,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Count; remove nothing.")] = False,
    vault: VaultPath = None,
    as_json: Json = False,
) -> None:
    """Remove versions that were replaced long ago; the current one of every item stays.

    The file does not shrink: what comes next uses the room. Take a snapshot first if in doubt.
    """
    with opened(vault, check=True) as target, my_turn(target, "cleanup"):
        done = target.thin(
            keep_days=keep_days, keep_versions=keep_versions, gone=gone, dry_run=dry_run
        )
    if as_json:
        print_json({"dry_run": dry_run, **asdict(done)})
    else:
        verb = "would be removed" if dry_run else "removed"
        typer.echo(
            f"{done.versions:,} versions ({done.freed_bytes / 1e6:,.1f} MB) and {done.items:,} "
            f"items {verb}"
        )
