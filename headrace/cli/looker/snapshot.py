"""`headrace looker snapshot …`: copies of a vault, in a folder or in S3."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import msgspec
import typer
from rich.console import Console

from headrace.cli.common import Json, print_json, table_of
from headrace.cli.looker.shared import VaultPath, opened, vault_path
from headrace.lake.store import Store
from headrace.looker.snapshots import Snapshot, find, open_snapshots
from headrace.looker.snapshots import delete as delete_snapshot
from headrace.looker.snapshots import fetch as fetch_snapshot
from headrace.looker.snapshots import list_snapshots as read_snapshots
from headrace.looker.snapshots import prune as prune_snapshots
from headrace.looker.snapshots import take as take_snapshot
from headrace.settings import load_settings

app = typer.Typer(help="Copies of the vault, in a folder or in S3.", no_args_is_help=True)

Place = Annotated[
    str | None,
    typer.Option(
        "--place",
        envvar="HEADRACE_LOOKER_SNAPSHOTS",
        help="A folder, s3://bucket/prefix, or block:NAME of a Headrace Lake block; "
        "default data/looker-snapshots.",
    ),
]
Name = Annotated[str, typer.Argument(help="As `list` shows it; `latest` is the newest.")]


@app.command()
def take(
    place: Place = None,
    keep_days: Annotated[
        float | None, typer.Option(min=0, help="Then remove older ones than this.")
    ] = None,
    keep: Annotated[
        int | None, typer.Option(min=1, help="Then keep at least so many of the newest.")
    ] = None,
    vault: VaultPath = None,
    as_json: Json = False,
) -> None:
    """Copy the vault as it is now: compressed, with checksums. Extractions may go on meanwhile."""
    with opened(vault) as source:
        store = _store(place, check=True)
        taken = take_snapshot(source, store)
    removed: tuple[str, ...] = ()
    if keep_days is not None or keep is not None:
        removed = prune_snapshots(store, keep_days=keep_days, keep=keep).removed
    if as_json:
        print_json({**_as_dict(taken), "place": store.location, "removed": removed})
    else:
        typer.echo(
            f"{taken.name}: {taken.size_bytes / 1e6:,.1f} MB as {taken.stored_bytes / 1e6:,.1f} MB "
            f"in {store.location}"
        )
        if removed:
            typer.echo(f"removed {', '.join(removed)}")


@app.command("list")
def list_snapshots(place: Place = None, as_json: Json = False) -> None:
    """List the snapshots, newest first."""
    store = _store(place)
    found = read_snapshots(store)
    if as_json:
        print_json({"place": store.location, "snapshots": [_as_dict(one) for one in found]})
    elif not found:
        typer.echo(f"no snapshot in {store.location}")
    else:
        rows = [
            {
                "name": one.name,
                "taken": one.taken_at[:19],
                "session": str(one.session),
                "items": sum(one.counts.values()),
                "vault (MB)": round(one.size_bytes / 1e6, 1),
                "stored (MB)": round(one.stored_bytes / 1e6, 1),
            }
            for one in found
        ]
        Console().print(table_of(rows))


@app.command()
def fetch(
    name: Name = "latest", place: Place = None, vault: VaultPath = None, as_json: Json = False
) -> None:
    """Bring a snapshot back as the vault; refused while there is a file at its place."""
    store = _store(place)
    found = find(store, name)
    target = fetch_snapshot(store, found, Path(vault_path(vault)))
    if as_json:
        print_json({**_as_dict(found), "vault": str(target)})
    else:
        typer.echo(f"{found.name} is now {target}")


@app.command()
def prune(
    keep_days: Annotated[
        float | None, typer.Option(min=0, help="Remove those that are older.")
    ] = None,
    keep: Annotated[
        int | None, typer.Option(min=1, help="At least so many of the newest stay.")
    ] = None,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Say which; remove nothing.")] = False,
    place: Place = None,
    as_json: Json = False,
) -> None:
    """Remove old snapshots: those beyond the newest --keep that are older than --keep-days.

    With one of the two, that one decides alone. The newest snapshot always stays.
    """
    done = prune_snapshots(_store(place), keep_days=keep_days, keep=keep, dry_run=dry_run)
    if as_json:
        print_json({"removed": done.removed, "kept": done.kept, "dry_run": dry_run})
        return
    for name in done.removed:
        typer.echo(f"{'would remove' if dry_run else 'removed'} {name}")
    typer.echo(f"{len(done.removed)} removed, {len(done.kept)} kept")


@app.command()
def delete(name: Name, place: Place = None) -> None:
    """Remove one snapshot."""
    store = _store(place)
    found = find(store, name)
    delete_snapshot(store, found.name)
    typer.echo(f"removed {found.name}")


def _store(place: str | None, *, check: bool = False) -> Store:
    location = place or load_settings().looker_snapshots
    if location.startswith("block:"):
        # Prefect takes a second to import, which a folder need not pay.
        from blocks.resolve import lake_of

        return lake_of(location).store()
    return open_snapshots(location, check=check)


def _as_dict(snapshot: Snapshot) -> dict[str, Any]:
    fields: dict[str, Any] = msgspec.to_builtins(snapshot)
    return {**fields, "parts": len(snapshot.parts), "stored_bytes": snapshot.stored_bytes}
