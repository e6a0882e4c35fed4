"""`headrace requests …`: send requests with many keys; their queues and graveyards."""

from __future__ import annotations

from dataclasses import asdict
from datetime import UTC, datetime
from typing import Annotated

import typer

from headrace.amounts import counted
from headrace.cli.common import Json, Yes, confirm, print_json, result_console, table_of
from headrace.cli.options import pipeline_command
from headrace.delivery.journal import Journal
from headrace.delivery.request import SendRequest
from headrace.settings import load_settings

app = typer.Typer(
    help="Requests with a time to live, sent over one API key or many.", no_args_is_help=True
)
graveyard_app = typer.Typer(
    help="Requests that failed for good: look at them, send them again, delete them.",
    no_args_is_help=True,
)
app.command("send")(
    pipeline_command(
        "keyed_requests",
        SendRequest,
        """Send requests: of a file, made ones (--count, --seconds), or what the queue still holds.

        Exit code 0: all were answered; 4: some are in the graveyard, or too many expired.
        """,
        name="send",
    )
)
app.add_typer(graveyard_app, name="graveyard")

Queue = Annotated[str, typer.Option(help="Name of the queue.")]
Ids = Annotated[list[int] | None, typer.Argument(help="Ids as `list` shows them; default: all.")]


@app.command()
def status(queue: Queue = "default", as_json: Json = False) -> None:
    """Show how many requests a queue has accepted since it was made, and where they are."""
    with _journal(queue) as journal:
        books = journal.books()
    counts = asdict(books)
    if as_json:
        print_json({"queue": queue, **counts, "add_up": books.add_up})
        return
    for name, count in counts.items():
        typer.echo(f"{name:>10} {count:,}")
    if not books.add_up:
        typer.echo("these do not add up: the file was changed from outside")


@graveyard_app.command("list")
def list_graveyard(
    queue: Queue = "default",
    limit: Annotated[int, typer.Option(min=1, help="How many at most.")] = 100,
    as_json: Json = False,
) -> None:
    """List what failed, and why."""
    with _journal(queue) as journal:
        found, books = journal.graveyard(limit=limit), journal.books()
    rows = [
        {
            "id": each.id,
            "method": each.request.method,
            "path": each.request.path,
            "tries": each.tries,
            "outcome": "unknown" if each.unknown else "refused",
            "reason": each.reason,
            "ended_at": _moment(each.ended_at),
        }
        for each in found
    ]
    if as_json:
        print_json({"queue": queue, "graveyard": books.graveyard, "requests": rows})
    elif not rows:
        typer.echo(f"the graveyard of queue {queue} is empty")
    else:
        result_console().print(
            table_of(rows, f"graveyard of queue {queue}: {counted(books.graveyard, 'request')}")
        )


@graveyard_app.command()
def replay(
    ids: Ids = None,
    queue: Queue = "default",
    unknown: Annotated[
        bool,
        typer.Option(
            "--unknown",
            help="Also those that the server may have carried out and that may not be repeated.",
        ),
    ] = False,
    as_json: Json = False,
) -> None:
    """Queue requests again, with new tries and a new time to live; the next `send` sends them."""
    with _journal(queue) as journal:
        replayed = journal.replay(ids or (), unknown=unknown)
        left = journal.books().graveyard
    if as_json:
        print_json({"queue": queue, "replayed": replayed, "graveyard": left})
        return
    typer.echo(
        f"{counted(replayed, 'request is', 'requests are')} queued again; "
        f"`headrace requests send --queue {queue}` sends {'it' if replayed == 1 else 'them'}"
    )
    if ids and replayed < len(set(ids)):
        left = len(set(ids)) - replayed
        typer.echo(
            f"{left:,} of the ids named {'was' if left == 1 else 'were'} not: not in the "
            "graveyard, or the server may have carried them out (--unknown)"
        )
    elif left and not ids and not unknown:
        asks = "it asks" if left == 1 else "they ask"
        typer.echo(f"{left:,} left: the server may have carried out what {asks} for (--unknown)")


@graveyard_app.command()
def purge(
    ids: Ids = None, queue: Queue = "default", yes: Yes = False, as_json: Json = False
) -> None:
    """Delete requests from the graveyard; they stay counted."""
    if not yes:
        which = counted(len(ids), "request") if ids else "all requests"
        confirm(
            f"Delete {which} from the graveyard of queue {queue}?",
            refusal="requests in a graveyard are deleted for good",
        )
    with _journal(queue) as journal:
        purged = journal.purge(ids or ())
    if as_json:
        print_json({"queue": queue, "purged": purged})
    else:
        typer.echo(f"{counted(purged, 'request')} deleted")


def _journal(queue: str) -> Journal:
    return Journal(load_settings().journal_of(queue), create=False)


def _moment(unix_s: float) -> str:
    return datetime.fromtimestamp(unix_s, UTC).strftime("%Y-%m-%d %H:%M:%SZ")
