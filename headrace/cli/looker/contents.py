"""The `headrace looker` commands on what a vault holds: shown, compared, as files and back."""

from __future__ import annotations

import json
import sys
from collections import Counter
from dataclasses import asdict
from itertools import islice
from pathlib import Path
from typing import Annotated, Any

import typer

from headrace.cli.common import Json, print_json, result_console, table_of
from headrace.cli.exit_codes import Exit
from headrace.cli.looker.shared import (
    Deleted,
    IdArgument,
    TypeArgument,
    TypeFilter,
    Types,
    VaultPath,
    known_type,
    known_types,
    one_line,
    opened,
)
from headrace.looker.diff import MISSING, Change, Difference, differences, pair_of_sessions
from headrace.looker.folder import pack as pack_folder
from headrace.looker.folder import unpack as unpack_folder
from headrace.looker.vault import Row, Session, Vault
from headrace.looker.vault.model import Version

#: A longer table is of no help.
_MOST_SHOWN = 1_000


def list_items(
    type_: TypeFilter = None,
    vault: VaultPath = None,
    deleted: Deleted = False,
    folder: Annotated[str | None, typer.Option(help="Only in the folder with this id.")] = None,
    text: Annotated[str, typer.Option("--search", help="Only where the name or id holds it.")] = "",
    limit: Annotated[
        int | None, typer.Option(min=1, help="At most so many; without --json 1,000 at most.")
    ] = None,
    as_json: Json = False,
) -> None:
    """List the items of a vault: type, id, name, folder, when changed and when seen last."""
    wanted = known_type(type_) if type_ else ""
    with opened(vault) as source:
        listed = source.contents.rows(wanted, deleted=deleted, folder=folder, text=text)
        found = list(islice(listed, limit or (None if as_json else _MOST_SHOWN)))
    if as_json:
        print_json({"items": [_as_dict(row) for row in found]})
    elif found:
        rows = [_shown(row) | ({"deleted": row.deletion or ""} if deleted else {}) for row in found]
        result_console().print(table_of(rows, whole=("type", "folder", "updated", "seen")))
        if limit is None and len(found) == _MOST_SHOWN:
            typer.echo(f"the first {_MOST_SHOWN:,}; see --limit, --search, --json")
    else:
        typer.echo("the vault holds nothing of that kind")


def info(vault: VaultPath = None, as_json: Json = False) -> None:
    """What a vault holds by type, its size, its last sessions and what is still failing."""
    with opened(vault) as source:
        facts = _info(source)
    if as_json:
        print_json(facts)
        return
    typer.echo(f"vault     {facts['vault']} ({facts['size_bytes'] / 1e6:,.1f} MB)")
    typer.echo(f"looker    {facts['source'] or 'nothing extracted yet'}")
    typer.echo(f"failures  {facts['failures']} open (headrace looker failures)")
    if facts["restore_failures"]:
        typer.echo(
            f"restores  {facts['restore_failures']} failing (headrace looker restore --failures)"
        )
    rows = [
        {
            "type": name,
            "items": of_type["items"],
            "deleted": of_type["deleted"],
            "versions": of_type["versions"],
            "bodies (MB)": round(of_type["body_bytes"] / 1e6, 1),
            "stored (MB)": round(of_type["stored_bytes"] / 1e6, 1),
        }
        for name, of_type in facts["types"].items()
    ]
    console = result_console()
    if rows:
        console.print(table_of(rows))
    sessions = [
        {
            "session": str(session["id"]),
            "kind": session["kind"],
            "status": session["status"],
            "started": session["started_at"][:19],
            "ended": (session["ended_at"] or "")[:19],
            "run_id": session["run_id"],
        }
        for session in facts["sessions"]
    ]
    if sessions:
        console.print(table_of(sessions, whole=("kind", "started", "ended")))


def show(
    type_: TypeArgument,
    item_id: IdArgument,
    vault: VaultPath = None,
    version: Annotated[
        int | None, typer.Option(min=1, help="An older version; the current one if left out.")
    ] = None,
    body: Annotated[
        bool, typer.Option("--body", help="The body alone, the bytes as the server sent them.")
    ] = False,
    as_json: Json = False,
) -> None:
    """Show one item: what the vault knows of it, its versions, and its body."""
    type_ = known_type(type_)
    with opened(vault) as source:
        shown = source.contents.body(type_, item_id, version=version)
        row = source.contents.row(type_, item_id)
        history = source.contents.history(type_, item_id)
        events = source.contents.events(type_, item_id)
    if body:
        sys.stdout.buffer.write(shown.body)
        sys.stdout.buffer.flush()
        return
    assert row is not None
    if as_json:
        print_json(
            {
                **_as_dict(row),
                "versions": [_version(one) for one in history],
                "events": events,
                "shown_version": shown.version,
                "body": shown.body.decode("utf-8", "backslashreplace"),
            }
        )
        return
    for name, value in _as_dict(row).items():
        typer.echo(f"{name:14}{one_line(str(value) if value is not None else '-')}")
    for one in history:
        mark = "*" if one.version == shown.version else " "
        typer.echo(
            f"version {one.version:>4}{mark} {one.stored_at} session {one.session} from "
            f"{one.origin}, {one.size_bytes:,} bytes, sha256 {one.hash.hex()}"
        )
    for event in events:
        typer.echo(f"{event['kind']:13} {event['at']} session {event['session']}: "
                   f"{one_line(event['evidence'])}")  # fmt: skip
    typer.echo("(headrace looker show --body prints the body)")


def _info(vault: Vault) -> dict[str, Any]:
    # A restore's clients take half a second to import, which the other commands need not pay.
    from headrace.looker.restore.state import restore_failures

    return {
        "vault": str(vault.path),
        "source": vault.source,
        "size_bytes": vault.path.stat().st_size,
        "types": vault.contents.sizes(),
        "failures": len(vault.failures.open()),
        "restore_failures": len(restore_failures(vault)),
        "sessions": [_session(session) for session in vault.sessions.list(limit=10)],
    }


def _session(session: Session) -> dict[str, Any]:
    return {**asdict(session), "status": session.status.value}


def _as_dict(row: Row) -> dict[str, Any]:
    return {**asdict(row), "hash": row.hash.hex()}


def _version(version: Version) -> dict[str, Any]:
    facts = asdict(version)
    sha256 = facts.pop("hash").hex()
    return {**facts, "sha256": sha256}


def _shown(row: Row) -> dict[str, str]:
    return {
        "type": row.type,
        "id": one_line(row.id),
        "name": one_line(row.name),
        "folder": one_line(row.folder),
        "updated": (row.updated_at or "")[:10],
        "seen": row.seen_at[:10],
        "version": str(row.version),
    }


def failures(
    types: Types = None,
    everything: Annotated[
        bool, typer.Option("--all", help="Also what has succeeded or was deleted since.")
    ] = False,
    vault: VaultPath = None,
    as_json: Json = False,
) -> None:
    """List items and pages that failed: status, message, attempts."""
    wanted = known_types(types)
    with opened(vault) as source:
        table = source.failures
        found = table.all(types=wanted) if everything else table.open(types=wanted)
    if as_json:
        print_json({"failures": [asdict(failure) for failure in found]})
        return
    if not found:
        typer.echo("nothing is failing")
        return
    rows = [
        {
            "type": failure.type,
            "what": failure.kind,
            "id or page": one_line(failure.key),
            "status": str(failure.status or "-"),
            "attempts": str(failure.attempts),
            "last": failure.last_at[:19],
            "message": one_line(failure.message),
        }
        for failure in found
    ]
    result_console().print(table_of(rows))
    if any(failure.resolved_at is None for failure in found):
        typer.echo("headrace looker retry asks for the open ones again")


_SIGNS = {"added": "+", "deleted": "-", "returned": "+", "changed": "~"}


def diff(
    before: Annotated[
        int | None, typer.Argument(help="The older session; the one before the later one.")
    ] = None,
    after: Annotated[int | None, typer.Argument(help="The later session; the newest.")] = None,
    types: Types = None,
    everything: Annotated[
        bool,
        typer.Option("--all", help="Also fields that change by being looked at: view_count, can."),
    ] = False,
    vault: VaultPath = None,
    as_json: Json = False,
) -> None:
    """Say what changed between two sessions: items added, deleted, returned, and every field.

    `headrace looker info` lists the sessions. With one session, it is compared with the newest.
    """
    wanted = known_types(types)
    counts: Counter[str] = Counter()
    found: list[dict[str, Any]] = []
    with opened(vault) as source:
        first, last = pair_of_sessions(source, before, after)
        if not as_json:
            typer.echo(f"from session {first} to session {last}")
        for difference in differences(source, first, last, types=wanted, volatile=everything):
            counts[difference.what] += 1
            if as_json:
                found.append(_difference(difference))
            else:
                _print_difference(difference)
    if as_json:
        print_json({"before": first, "after": last, "counts": counts, "items": found})
    else:
        said = ", ".join(f"{number:,} {what}" for what, number in sorted(counts.items()))
        typer.echo(said or "nothing changed")


def _print_difference(difference: Difference) -> None:
    by_us = " (an edit that was packed)" if difference.origin == "pack" else ""
    typer.echo(
        f"{_SIGNS[difference.what]} {difference.type} {one_line(difference.id)} "
        f"{one_line(difference.name)!r} {difference.what}{by_us}"
    )
    if difference.what == "changed" and not difference.changes:
        typer.echo("    (what it was is no longer kept, or only the form of the bytes differs)")
    for change in difference.changes:
        typer.echo(
            f"    {one_line(change.path, longest=120) or '(the whole body)'}: "
            f"{_value(change.before)} -> {_value(change.after)}"
        )


def _value(value: Any) -> str:
    return one_line(repr(value) if value is MISSING else json.dumps(value), longest=100)


def _difference(difference: Difference) -> dict[str, Any]:
    return {
        "type": difference.type,
        "id": difference.id,
        "name": difference.name,
        "what": difference.what,
        "origin": difference.origin,
        "changes": [_change(change) for change in difference.changes],
    }


def _change(change: Change) -> dict[str, Any]:
    """A side that is not there is left out, which null is not."""
    sides = {"before": change.before, "after": change.after}
    return {"path": change.path, **{k: v for k, v in sides.items() if v is not MISSING}}


Folder = Annotated[Path, typer.Argument(help="Of the files, {type}/{id}.json.")]


def unpack(
    folder: Folder,
    types: Types = None,
    deleted: Deleted = False,
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
