"""`headrace looker list|info|show|failures|diff`: what a vault holds, and what changed."""

from __future__ import annotations

import json
import sys
from collections import Counter
from dataclasses import asdict
from itertools import islice
from typing import Annotated, Any

import typer
from rich.console import Console
from rich.table import Table
from rich.text import Text

from headrace.cli.looker.options import (
    IdArgument,
    Json,
    TypeArgument,
    Types,
    VaultPath,
    known_type,
    known_types,
    one_line,
    opened,
    print_json,
)
from headrace.looker.content import TYPES
from headrace.looker.diff import MISSING, Change, Difference, differences, pair_of_sessions
from headrace.looker.vault import Row, Session, Vault
from headrace.looker.vault.model import Version

#: A longer table is of no help.
_MOST_SHOWN = 1_000


def list_items(
    type_: Annotated[
        str | None,
        typer.Argument(metavar="[TYPE]", help=f"One of {', '.join(TYPES)}; all if left out."),
    ] = None,
    vault: VaultPath = None,
    deleted: Annotated[
        bool, typer.Option("--deleted", help="Also what is deleted on the server.")
    ] = False,
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
        rows = source.contents.rows(wanted, deleted=deleted, folder=folder, text=text)
        found = list(islice(rows, limit or (None if as_json else _MOST_SHOWN)))
    if as_json:
        print_json({"items": [_as_dict(row) for row in found]})
    elif found:
        Console().print(_table(found))
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
    table = Table("type", *("items", "deleted", "versions", "bodies", "stored"))
    for column in table.columns[1:]:
        column.justify = "right"
    for name, of_type in facts["types"].items():
        table.add_row(
            name,
            f"{of_type['items']:,}",
            f"{of_type['deleted']:,}",
            f"{of_type['versions']:,}",
            f"{of_type['body_bytes'] / 1e6:,.1f} MB",
            f"{of_type['stored_bytes'] / 1e6:,.1f} MB",
        )
    Console().print(table)
    sessions = Table("session", "kind", "status", "started", "ended", "run")
    for session in facts["sessions"]:
        sessions.add_row(
            *(
                Text(str(session[name] or ""))
                for name in ("id", "kind", "status", "started_at", "ended_at", "run_id")
            )
        )
    Console().print(sessions)


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


def _table(rows: list[Row]) -> Table:
    table = Table()
    for name in ("type", "id", "name", "folder", "updated", "seen", "version", "deleted"):
        table.add_column(name, no_wrap=name in ("type", "updated", "seen"), overflow="fold")
    for row in rows:
        cells = (
            row.type,
            row.id,
            one_line(row.name),
            row.folder or "",
            (row.updated_at or "")[:10],
            row.seen_at[:10],
            str(row.version),
            row.deletion or "",
        )
        # As Text, since names come from outside and must not be read as markup.
        table.add_row(*(Text(one_line(cell), overflow="fold") for cell in cells))
    return table


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
    shown = Table("type", "what", "id or page", "status", "attempts", "last", "message")
    for failure in found:
        cells = (
            failure.type,
            failure.kind,
            failure.key,
            str(failure.status or "-"),
            str(failure.attempts),
            failure.last_at[:19],
            failure.message,
        )
        shown.add_row(*(Text(one_line(cell), overflow="fold") for cell in cells))
    Console().print(shown)
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
