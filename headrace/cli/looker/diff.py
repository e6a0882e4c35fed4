"""`headrace looker diff`: what changed between two sessions, field by field."""

from __future__ import annotations

import json
from collections import Counter
from typing import Annotated, Any

import typer

from headrace.cli.looker.options import (
    Json,
    Types,
    VaultPath,
    known_types,
    one_line,
    opened,
    print_json,
)
from headrace.looker.diff import MISSING, Change, Difference, differences, pair_of_sessions

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
                found.append(_as_dict(difference))
            else:
                _print(difference)
    if as_json:
        print_json({"before": first, "after": last, "counts": counts, "items": found})
    else:
        said = ", ".join(f"{number:,} {what}" for what, number in sorted(counts.items()))
        typer.echo(said or "nothing changed")


def _print(difference: Difference) -> None:
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


def _as_dict(difference: Difference) -> dict[str, Any]:
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
