"""`headrace looker restore`: from the vault back into a Looker."""

from __future__ import annotations

from collections import Counter
from dataclasses import asdict
from typing import Annotated, Any

import typer

from headrace.amounts import counted
from headrace.cli.common import Json, Yes, confirm, print_json, result_console, table_of
from headrace.cli.exit_codes import Exit
from headrace.cli.looker.shared import (
    BaseUrl,
    Deleted,
    OutageLimit,
    Rate,
    TypeFilter,
    VaultPath,
    connected,
    hold_vault,
    known_type,
    one_line,
    opened,
    say_outcome,
)
from headrace.cli.tables import FittedTable
from headrace.errors import ConfigurationError
from headrace.looker.restore.plan import Step, plan
from headrace.looker.restore.report import RestoreOutcome, RestoreReport
from headrace.looker.restore.restorer import Restorer
from headrace.looker.restore.state import restore_failures
from headrace.looker.vault import Status
from headrace.quota.config import OUTAGE_LIMIT_S


def restore(
    type_: TypeFilter = None,
    item_id: Annotated[
        str | None, typer.Argument(metavar="[ID]", help="Only this item, deleted or not.")
    ] = None,
    version: Annotated[
        int | None, typer.Option(min=1, help="An older version of that item.")
    ] = None,
    deleted: Deleted = False,
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Say what would be done, and write nothing.")
    ] = False,
    overwrite: Annotated[
        bool,
        typer.Option(
            "--overwrite", help="Put looks and dashboards in the place of others of their title."
        ),
    ] = False,
    force: Annotated[
        bool, typer.Option("--force", help="Write also what is as it was restored.")
    ] = False,
    enable_schedules: Annotated[
        bool,
        typer.Option(
            "--enable-schedules",
            help="Have schedules and alerts send from another Looker, too; they arrive off.",
        ),
    ] = False,
    failures: Annotated[
        bool, typer.Option("--failures", help="List what could not be restored, and end.")
    ] = False,
    yes: Yes = False,
    vault: VaultPath = None,
    base_url: BaseUrl = "",
    rate: Rate = [],  # noqa: B006 - typer reads it, it is never changed
    outage_limit_s: OutageLimit = OUTAGE_LIMIT_S,
    as_json: Json = False,
) -> None:
    """Restore one item, a type or everything into the Looker at --base-url.

    Into the Looker that the vault is of, items get back what the vault holds, and what is gone is
    made again. Into another one everything is made, in the order of its dependencies, and ids are
    translated. A run that was cut off goes on where it was; a second one makes nothing twice.
    """
    types = (known_type(type_),) if type_ else ()
    if failures:
        _show_failures(vault, as_json=as_json)
        return
    if version is not None and item_id is None:
        raise ConfigurationError("--version is of one item", hint="Name its type and its id")
    with opened(vault, check=True) as source, hold_vault(source, "restore") as stop:
        steps = plan(source, types=types, item_id=item_id, version=version, deleted=deleted)
        with connected(base_url, rate, stop=stop, outage_limit_s=outage_limit_s) as client:
            restorer = Restorer(
                source,
                client,
                overwrite=overwrite,
                force=force,
                enable_schedules=enable_schedules,
                stop=stop,
                report=(lambda _outcome: None) if as_json else say_outcome,
            )
            expected = _expected(restorer, steps)
            if dry_run:
                _show_plan(client.source, expected, as_json=as_json)
                return
            if not yes:
                schedules = _of_schedules(restorer, steps, enable=enable_schedules)
                what = f"{counted(len(steps), 'item')} into {client.source}{schedules}"
                confirm(
                    f"Restore {what}?",
                    refusal=f"{what} were not restored",
                    hint="repeat with --yes, or look with --dry-run",
                )
            parameters = {"types": list(types), "id": item_id, "version": version,
                          "deleted": deleted, "force": force}  # fmt: skip
            done = restorer.run(steps, parameters=parameters)
    _show(client.source, done, as_json=as_json)
    if done.stopped:
        raise typer.Exit(Exit.INTERRUPTED)
    if done.status is Status.PARTIAL:
        raise typer.Exit(Exit.PARTIAL)


def _expected(restorer: Restorer, steps: list[Step]) -> dict[str, Counter[RestoreOutcome]]:
    expected: dict[str, Counter[RestoreOutcome]] = {}
    for step in steps:
        expected.setdefault(step.type, Counter())[restorer.expected(step)] += 1
    return expected


def _of_schedules(restorer: Restorer, steps: list[Step], *, enable: bool) -> str:
    """What becomes of schedules and alerts; nothing at the Looker that they come from."""
    sending = [step.type for step in steps if step.type in ("scheduled_plan", "alert")]
    if not sending or restorer.same:
        return ""
    schedules = sending.count("scheduled_plan")
    numbers = ((schedules, "schedule"), (len(sending) - schedules, "alert"))
    both = " and ".join(counted(count, noun) for count, noun in numbers if count)
    if enable:
        return f"; {both}, of which those that are on will SEND from there"
    return f"; {both} arrive switched off (--enable-schedules)"


def _show_plan(target: str, expected: dict[str, Counter[RestoreOutcome]], *, as_json: bool) -> None:
    if as_json:
        print_json({"target": target, "dry_run": True, "types": expected})
        return
    typer.echo(f"into {target}, nothing was written (as far as is known without asking):")
    result_console().print(_table(expected))


def _show(target: str, done: RestoreReport, *, as_json: bool) -> None:
    if as_json:
        print_json(
            {
                "target": target,
                "status": done.status,
                "session": done.session,
                "types": done.counts,
                "problems": [asdict(problem) for problem in done.problems],
            }
        )
        return
    result_console().print(_table(done.counts))
    if done.failed:
        typer.echo("run it again to try what failed; --failures lists it")
    if done.incomplete:
        typer.echo(
            f"{counted(len(done.incomplete), 'item is', 'items are')} there without a part; "
            "--failures lists it"
        )


def _show_failures(vault: str | None, *, as_json: bool) -> None:
    with opened(vault) as source:
        found: list[dict[str, Any]] = [asdict(failure) for failure in restore_failures(source)]
    if as_json:
        print_json({"failures": found})
        return
    for each in found:
        status = f", status {each['status']}" if each["status"] else ""
        typer.echo(
            f"{each['type']} {one_line(each['id'])} into {each['target']} "
            f"({counted(each['attempts'], 'attempt')}{status}): "
            f"{one_line(each['message'], longest=300)}"
        )
    if not found:
        typer.echo("nothing is failing")


_SHOWN = [how for how in RestoreOutcome if how is not RestoreOutcome.REMOVED]


def _table(counts: dict[str, Counter[RestoreOutcome]]) -> FittedTable:
    rows = [
        {"type": type_, **{how.value: of_type[how] for how in _SHOWN}}
        for type_, of_type in counts.items()
    ]
    return table_of(rows or [{"type": "nothing to restore"}])
