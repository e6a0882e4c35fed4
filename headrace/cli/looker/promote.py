"""`headrace looker promote`: a folder of one Looker into another one, after a look at the plan."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from contextlib import ExitStack
from dataclasses import asdict
from enum import StrEnum
from typing import Annotated, Any

import typer

from headrace.amounts import counted
from headrace.cli.common import Json, Yes, confirm, print_json, result_console, table_of
from headrace.cli.exit_codes import Exit
from headrace.cli.looker.shared import (
    OutageLimit,
    Rate,
    VaultPath,
    check_looker,
    connected,
    hold_vault,
    one_line,
    say_outcome,
    vault_path,
)
from headrace.looker.exceptions import SameLooker
from headrace.looker.promote.plan import Change, Planner, PromotionPlan
from headrace.looker.promote.promoter import Promoter
from headrace.looker.promote.reading import read_folder
from headrace.looker.restore.report import RestoreOutcome, RestoreReport
from headrace.looker.vault import Status, Vault
from headrace.quota.config import OUTAGE_LIMIT_S

_WORKERS = 4
#: Of the variables of the Looker that is promoted to.
_TARGET_PREFIX = "LOOKERSDK_TARGET_"


def promote(
    folder: Annotated[
        str, typer.Argument(metavar="FOLDER", help="Id of the folder in the Looker at --from.")
    ],
    source: Annotated[
        str,
        typer.Option(
            "--from", help="The Looker to promote from, or block:NAME. [LOOKERSDK_BASE_URL]"
        ),
    ] = "",
    target: Annotated[
        str,
        typer.Option(
            "--to", help="The Looker to promote to, or block:NAME. [LOOKERSDK_TARGET_BASE_URL]"
        ),
    ] = "",
    into: Annotated[
        str,
        typer.Option(
            "--into", help="Id of the folder there to put it in; found by its path if left out."
        ),
    ] = "",
    overwrite: Annotated[
        bool, typer.Option("--overwrite", help="Write also over what was changed or made there.")
    ] = False,
    remove: Annotated[
        bool,
        typer.Option(
            "--remove",
            help="Put looks and dashboards that are not in the folder any more into the trash "
            "there.",
        ),
    ] = False,
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Show the plan, and write nothing there.")
    ] = False,
    yes: Yes = False,
    vault: VaultPath = None,
    rate: Rate = [],  # noqa: B006 - typer reads it, it is never changed
    outage_limit_s: OutageLimit = OUTAGE_LIMIT_S,
    as_json: Json = False,
) -> None:
    """Promote a folder, with all below it, from one Looker to another (development to production).

    The plan is shown first: what is created, changed, left alone, in conflict with a change
    that was made there, and what is missing there. Logs in there with LOOKERSDK_TARGET_CLIENT_ID
    and LOOKERSDK_TARGET_CLIENT_SECRET, or with the key of a Looker block.
    """
    check_looker(source)
    check_looker(target, _TARGET_PREFIX)
    with Vault.open(vault_path(vault), create=True) as kept, ExitStack() as opened:
        stop = opened.enter_context(hold_vault(kept, "promote"))
        options: dict[str, Any] = {
            "stop": stop, "outage_limit_s": outage_limit_s, "workers": _WORKERS
        }  # fmt: skip
        here = opened.enter_context(connected(source, rate, **options))
        there = opened.enter_context(connected(target, rate, prefix=_TARGET_PREFIX, **options))
        if here.source == there.source:
            raise SameLooker(here.source)
        kept.bind(here.source)
        reading = read_folder(kept, here, folder, workers=_WORKERS, stop=stop)
        planner = Planner(kept, here, there, reading, into=into, overwrite=overwrite, stop=stop)
        plan = planner.plan()
        promoter = Promoter(
            kept,
            there,
            plan,
            remove=remove,
            stop=stop,
            report=(lambda _outcome: None) if as_json else say_outcome,
        )
        if not as_json:
            _show_plan(plan, remove=remove)
        done: RestoreReport | None = None
        if promoter.due and not dry_run:
            if not yes:
                what = f"{counted(len(promoter.due), 'item')} of {plan.name!r} to {plan.target}"
                confirm(
                    f"Promote {what}?",
                    refusal=f"nothing was promoted of {what}",
                    hint="repeat with --yes, or look with --dry-run",
                )
            done = promoter.run()
    status = _status(plan, done, dry_run=dry_run)
    if as_json:
        print_json(_as_json(plan, done, status))
    elif done is not None:
        _show_done(done)
    if done is not None and done.stopped:
        raise typer.Exit(Exit.INTERRUPTED)
    if status in (_Status.PARTIAL, _Status.OPEN):
        raise typer.Exit(Exit.PARTIAL)


class _Status(StrEnum):
    """How the command ended."""

    PLANNED = "planned"  # nothing was to be written
    OPEN = "open"  # likewise, and something cannot be brought over as things are
    NOTHING = "nothing_to_do"
    DONE = "done"
    PARTIAL = "partial"
    INTERRUPTED = "interrupted"


def _status(plan: PromotionPlan, done: RestoreReport | None, *, dry_run: bool) -> _Status:
    if done is None:
        if plan.open:
            return _Status.OPEN
        return _Status.PLANNED if dry_run else _Status.NOTHING
    if done.stopped:
        return _Status.INTERRUPTED
    return _Status.PARTIAL if plan.open or done.status is Status.PARTIAL else _Status.DONE


def _show_plan(plan: PromotionPlan, *, remove: bool) -> None:
    typer.echo(f"{one_line(plan.name)} from {plan.source} to {plan.target}:")
    rows = [
        {
            "what": item.change.value,
            "type": item.type,
            "id": one_line(item.id),
            "name": one_line(item.name),
            "there": one_line(item.new_id),
            "why": one_line(item.why, longest=200),
        }
        for item in plan.items
        if item.change is not Change.UNCHANGED or item.why
    ]
    if rows:
        result_console().print(table_of(rows))
    for missing in plan.missing:
        rests = f", on which depends {one_line(', '.join(missing.needed_by), longest=200)}"
        then = "" if missing.blocks else "; the caller becomes the owner"
        typer.echo(
            f"not there: {missing.kind} {one_line(missing.name)}"
            f"{rests if missing.needed_by else ''}{then}"
        )
    for what in plan.unchecked:
        typer.echo(f"not looked at, for want of access: {one_line(what)}")
    counts = Counter[Change]()
    for of_type in plan.counts.values():
        counts += of_type
    typer.echo(", ".join(f"{counts[change]:,} {change.value}" for change in Change))
    if counts[Change.CONFLICT]:
        typer.echo("what is in conflict stays as it is there; --overwrite writes over it")
    if counts[Change.REMOVED] and not remove:
        typer.echo("what is removed here stays there; --remove puts it into the trash")


def _show_done(done: RestoreReport) -> None:
    counts = Counter[RestoreOutcome]()
    for of_type in done.counts.values():
        counts += of_type
    typer.echo(", ".join(f"{number:,} {how.value}" for how, number in sorted(counts.items())))
    if done.failed:
        typer.echo("run it again to try what failed")
    if done.stopped:
        typer.echo("stopped; run it again to go on")


def _as_json(plan: PromotionPlan, done: RestoreReport | None, status: _Status) -> Mapping[str, Any]:
    return {
        "source": plan.source,
        "target": plan.target,
        "folder": {"id": plan.folder, "name": plan.name},
        "status": status.value,
        "plan": {
            "types": plan.counts,
            "items": [
                {"type": item.type, "id": item.id, "name": item.name, "change": item.change,
                 "new_id": item.new_id, "why": item.why}
                for item in plan.items
            ],
            "missing": [asdict(missing) for missing in plan.missing],
            "unchecked": plan.unchecked,
        },
        "done": None if done is None else {
            "session": done.session,
            "types": done.counts,
            "problems": [asdict(problem) for problem in done.problems],
        },
    }  # fmt: skip
