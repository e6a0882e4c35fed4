"""`headrace looker retry`: ask again for what failed."""

from __future__ import annotations

from typing import Any

import typer

from headrace.cli.exits import Exit
from headrace.cli.looker.connecting import (
    BaseUrl,
    OutageLimit,
    Rate,
    connected,
    my_turn,
    same_looker,
)
from headrace.cli.looker.options import (
    Json,
    Types,
    VaultPath,
    known_types,
    one_line,
    opened,
    print_json,
)
from headrace.looker.retry import Mended, mend
from headrace.looker.vault import Failure
from headrace.quota.config import OUTAGE_LIMIT_S


def retry(
    types: Types = None,
    vault: VaultPath = None,
    base_url: BaseUrl = "",
    rate: Rate = [],  # noqa: B006 - typer reads it, nobody changes it
    outage_limit_s: OutageLimit = OUTAGE_LIMIT_S,
    as_json: Json = False,
) -> None:
    """Ask once more for each item that failed; what comes is stored, the rest stays on the list.

    Failed pages are left to the next `headrace looker extract`, which reads only those.
    """
    wanted = known_types(types)
    with opened(vault, check=True) as target:
        done = Mended(pages=target.failures.open(types=wanted))
        if any(failure.kind == "item" for failure in done.pages):
            with (
                my_turn(target, "retry") as stop,
                connected(base_url, rate, stop=stop, outage_limit_s=outage_limit_s) as client,
            ):
                same_looker(target, client)
                tell = (lambda _failure, _problem: None) if as_json else _tell
                done = mend(target, client, types=wanted, stop=stop, tell=tell)
    if as_json:
        print_json(_as_dict(done))
    else:
        typer.echo(f"{len(done.stored):,} came this time, {len(done.still):,} failed again")
        if done.pages:
            typer.echo(
                f"{len(done.pages):,} pages are missing; the next `headrace looker extract` reads "
                "only those"
            )
    if done.stopped:
        raise typer.Exit(Exit.INTERRUPTED)
    if done.still or done.pages:
        raise typer.Exit(Exit.PARTIAL)


def _tell(failure: Failure, problem: str) -> None:
    said = f"failed again: {one_line(problem, longest=200)}" if problem else "is stored"
    typer.echo(f"{failure.type} {one_line(failure.key)} {said}")


def _as_dict(done: Mended) -> dict[str, Any]:
    return {
        "session": done.session,
        "stored": [{"type": type_, "id": item_id} for type_, item_id in done.stored],
        "failed": [
            {"type": failure.type, "id": failure.key, "problem": problem}
            for failure, problem in done.still
        ],
        "pages": [{"type": failure.type, "page": failure.key} for failure in done.pages],
    }
