"""`headrace looker snapshot …`: copies of a vault, in a folder or in S3."""

from __future__ import annotations

from collections.abc import Collection
from datetime import UTC, datetime
from pathlib import Path
from typing import Annotated, Any

import msgspec
import typer

from headrace.amounts import counted
from headrace.cli.common import Json, print_json, result_console, table_of
from headrace.cli.evidence import KeyOption, key_at
from headrace.cli.exit_codes import Exit
from headrace.cli.looker.shared import VaultPath, opened, vault_path
from headrace.errors import ConfigurationError
from headrace.evidence.exceptions import KeyMissing
from headrace.evidence.keys import signing_key
from headrace.lake.store import Store
from headrace.looker.signing import SnapshotSigning
from headrace.looker.snapshots import Snapshot, find, open_snapshots
from headrace.looker.snapshots import delete as delete_snapshot
from headrace.looker.snapshots import fetch as fetch_snapshot
from headrace.looker.snapshots import list_snapshots as read_snapshots
from headrace.looker.snapshots import prune as prune_snapshots
from headrace.looker.snapshots import take as take_snapshot
from headrace.manifests.chain import opening, sealing
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
Sign = Annotated[
    bool, typer.Option("--sign", help="Then sign which snapshots lie there (docs/manifests.md).")
]
Accept = Annotated[
    str,
    typer.Option(
        help="Sign although snapshots of the last statement are gone or changed, for this reason."
    ),
]


@app.command()
def take(
    place: Place = None,
    keep_days: Annotated[
        float | None, typer.Option(min=0, help="Then remove older ones than this.")
    ] = None,
    keep: Annotated[
        int | None, typer.Option(min=1, help="Then keep at least so many of the newest.")
    ] = None,
    sign: Sign = False,
    accept: Accept = "",
    key: KeyOption = "",
    vault: VaultPath = None,
    as_json: Json = False,
) -> None:
    """Copy the vault as it is now: compressed, with checksums. Extractions may go on meanwhile."""
    _check_key(sign, accept, key)
    with opened(vault) as source:
        store = _store(place, check=True)
        taken = take_snapshot(source, store)
    removed: tuple[str, ...] = ()
    if keep_days is not None or keep is not None:
        removed = prune_snapshots(store, keep_days=keep_days, keep=keep).removed
    signed = _sign(store, key, removed, accept) if sign else None
    if as_json:
        facts = {"place": store.location, "removed": removed}
        print_json({**_as_dict(taken), **facts, **({"signed": signed} if sign else {})})
    else:
        typer.echo(
            f"{taken.name}: {taken.size_bytes / 1e6:,.1f} MB as {taken.stored_bytes / 1e6:,.1f} MB "
            f"in {store.location}"
        )
        if removed:
            typer.echo(f"removed {', '.join(removed)}")
        _say_signed(signed)


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
        result_console().print(table_of(rows))


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
    sign: Sign = False,
    accept: Accept = "",
    key: KeyOption = "",
    place: Place = None,
    as_json: Json = False,
) -> None:
    """Remove old snapshots: those beyond the newest --keep that are older than --keep-days.

    With one of the two, that one decides alone. The newest snapshot always stays.
    """
    _check_key(sign and not dry_run, accept, key)
    store = _store(place)
    done = prune_snapshots(store, keep_days=keep_days, keep=keep, dry_run=dry_run)
    signed = _sign(store, key, done.removed, accept) if sign and not dry_run else None
    if as_json:
        facts = {"removed": done.removed, "kept": done.kept, "dry_run": dry_run}
        print_json({**facts, **({"signed": signed} if sign else {})})
        return
    for name in done.removed:
        typer.echo(f"{'would remove' if dry_run else 'removed'} {name}")
    typer.echo(f"{len(done.removed)} removed, {len(done.kept)} kept")
    _say_signed(signed)


@app.command()
def delete(
    name: Name, place: Place = None, sign: Sign = False, accept: Accept = "", key: KeyOption = ""
) -> None:
    """Remove one snapshot."""
    _check_key(sign, accept, key)
    store = _store(place)
    found = find(store, name)
    delete_snapshot(store, found.name)
    typer.echo(f"removed {found.name}")
    if sign:
        _say_signed(_sign(store, key, [found.name], accept))


@app.command()
def verify(place: Place = None, key: KeyOption = "", as_json: Json = False) -> None:
    """Hold every snapshot against the last signed statement; exit code 4: one differs, named.

    Every part is read. `verify_evidence.py snapshots` does the same without headrace.
    """
    store = _store(place)
    with key_at(key) as keys:
        public = keys.public()
        if not public.keys:
            raise KeyMissing(keys.where)
    signing = SnapshotSigning(store, opening(public))
    last = signing.last()
    if last is None:
        raise ConfigurationError(
            f"nothing was signed in {store.location}", hint="headrace looker snapshot take --sign"
        )
    found = [f"{each.name}: {each.problem}" for each in signing.differences()]
    if as_json:
        snapshots = [each.name for each in last.snapshots]
        print_json({"statement": last.sequence, "snapshots": snapshots, "differences": found})
    else:
        for line in found:
            typer.echo(line)
        typer.echo(
            f"statement {last.sequence} names {counted(len(last.snapshots), 'snapshot')}, "
            + counted(len(found), "difference")
        )
    if found:
        raise typer.Exit(Exit.PARTIAL)


def _check_key(sign: bool, accept: str, key: str) -> None:
    """Find out before any work whether there is a key to sign with."""
    if accept and not sign:
        raise ConfigurationError("--accept says why to sign", hint="Give --sign, too")
    if not accept.isprintable():
        raise ConfigurationError("--accept is signed: it has to be one line of plain text")
    if sign:
        with key_at(key) as place:
            signing_key(place)


def _sign(store: Store, key: str, removed: Collection[str], accept: str) -> int:
    """Sign which snapshots lie there now; the statement's number."""
    with key_at(key) as place:
        private, public = signing_key(place), place.public()
    signing = SnapshotSigning(store, opening(public))
    now = datetime.now(UTC)
    return signing.sign(sealing(private), now, removed=removed, accept=accept).sequence


def _say_signed(number: int | None) -> None:
    if number is not None:
        typer.echo(f"signed: statement {number}")


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
