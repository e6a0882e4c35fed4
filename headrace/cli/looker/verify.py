"""`headrace looker verify`: is the vault whole, and is it what the server shows?"""

from __future__ import annotations

from collections import Counter
from dataclasses import asdict
from typing import Annotated

import typer

from headrace.cli.exits import Exit
from headrace.cli.looker.connecting import (
    BaseUrl,
    OutageLimit,
    Rate,
    connected,
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
from headrace.looker.verify import Checked, Comparison, Finding, Ill, verify_hashes
from headrace.quota.config import OUTAGE_LIMIT_S
from headrace.signals import stop_on_signals
from headrace.stopping import Stopped


def verify(
    types: Types = None,
    offline: Annotated[
        bool, typer.Option("--offline", help="Only the vault's own hashes; ask no server.")
    ] = False,
    vault: VaultPath = None,
    base_url: BaseUrl = "",
    rate: Rate = [],  # noqa: B006 - typer reads it, nobody changes it
    outage_limit_s: OutageLimit = OUTAGE_LIMIT_S,
    as_json: Json = False,
) -> None:
    """Recompute every hash of the vault, then compare its items with the server, byte for byte.

    The comparison costs as many requests as an extraction. Exit code 1 if the vault is damaged, 4
    if it is whole and not what the server shows now.
    """
    wanted = known_types(types)
    checked, counts = Checked(), Counter[Ill]()
    found: list[Finding] = []

    def note(finding: Finding) -> None:
        counts[finding.what] += 1
        if as_json:
            found.append(finding)
        else:
            typer.echo(
                f"{finding.what}: {finding.type} {one_line(finding.id)}: "
                f"{one_line(finding.detail, longest=200)}"
            )

    stopped = False
    with opened(vault, check=True) as source, stop_on_signals() as stop:
        try:
            for finding in verify_hashes(source, checked, types=wanted, stop=stop):
                note(finding)
            if not offline:
                with connected(base_url, rate, stop=stop, outage_limit_s=outage_limit_s) as client:
                    same_looker(source, client)
                    comparison = Comparison(source, client, checked, stop=stop)
                    for finding in comparison.findings(wanted):
                        note(finding)
        except Stopped:
            stopped = True
    if as_json:
        print_json(
            {
                "versions": checked.versions,
                "compared": checked.compared,
                "counts": counts,
                "findings": [asdict(finding) for finding in found],
                "complete": not stopped,
            }
        )
    else:
        said = ", ".join(f"{number:,} {what}" for what, number in sorted(counts.items()))
        typer.echo(
            f"{checked.versions:,} versions hashed, {checked.compared:,} items compared with the "
            f"server: {said or 'all as it should be'}"
        )
    if stopped:
        raise typer.Exit(Exit.INTERRUPTED)
    if counts[Ill.DAMAGED]:
        raise typer.Exit(Exit.FAILED)
    if counts:
        raise typer.Exit(Exit.PARTIAL)
