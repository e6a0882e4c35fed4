"""`headrace looker extract|retry|verify|cleanup|validate`: a vault up to date, whole, small."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import asdict
from typing import Annotated, Any

import typer

from headrace.amounts import counted
from headrace.cli.common import Json, print_json
from headrace.cli.exit_codes import Exit
from headrace.cli.looker.shared import (
    BaseUrl,
    OutageLimit,
    Rate,
    Types,
    VaultPath,
    check_looker,
    connected,
    hold_vault,
    known_types,
    one_line,
    opened,
    same_looker,
)
from headrace.cli.options import pipeline_command
from headrace.leases import LeaseHeld, claim, open_leases
from headrace.looker.extract.report import ExtractSummary, refused
from headrace.looker.extract.request import ExtractRequest, vault_lease
from headrace.looker.retry import RetryReport, retry_failures
from headrace.looker.validate.request import ValidateRequest
from headrace.looker.vault import Failure
from headrace.looker.verify import Comparison, Finding, Problem, VerifyCounts, verify_hashes
from headrace.quota.config import OUTAGE_LIMIT_S
from headrace.settings import load_settings
from headrace.signals import stop_on_signals
from headrace.stopping import Stopped


def _check(request: ExtractRequest, _as_json: bool) -> None:
    check_looker(request.base_url)


@contextmanager
def _admit(request: ExtractRequest) -> Iterator[ExtractSummary | None]:
    """Claim the vault before Prefect is loaded (see `docs/leases.md`)."""
    settings = load_settings()
    found = None
    with ExitStack() as claimed:
        try:
            leases = open_leases(settings.lease_location)
            claimed.enter_context(
                claim(leases, vault_lease(request.vault), ttl_s=settings.lease_ttl_s)
            )
        except LeaseHeld as held:
            found = refused(request, held)
        yield found


extract = pipeline_command(
    "looker",
    ExtractRequest,
    """Bring the content of a Looker into a vault; a second run goes on where one broke off.

    Logs in with LOOKERSDK_CLIENT_ID and LOOKERSDK_CLIENT_SECRET, or with those of a Looker block.
    """,
    name="extract",
    admit=_admit,
    check=_check,
)


def retry(
    types: Types = None,
    vault: VaultPath = None,
    base_url: BaseUrl = "",
    rate: Rate = [],  # noqa: B006 - typer reads it, it is never changed
    outage_limit_s: OutageLimit = OUTAGE_LIMIT_S,
    as_json: Json = False,
) -> None:
    """Ask once more for each item that failed; what comes is stored, the rest stays on the list.

    Failed pages are left to the next `headrace looker extract`, which reads only those.
    """
    wanted = known_types(types)
    with opened(vault, check=True) as target:
        done = RetryReport(pages=target.failures.open(types=wanted))
        if any(failure.kind == "item" for failure in done.pages):
            with (
                hold_vault(target, "retry") as stop,
                connected(base_url, rate, stop=stop, outage_limit_s=outage_limit_s) as client,
            ):
                same_looker(target, client)
                report = (lambda _failure, _problem: None) if as_json else _report
                done = retry_failures(target, client, types=wanted, stop=stop, report=report)
    if as_json:
        print_json(_as_json(done))
    else:
        typer.echo(f"{len(done.stored):,} came this time, {len(done.still):,} failed again")
        if done.pages:
            typer.echo(
                f"{counted(len(done.pages), 'page is', 'pages are')} missing; the "
                "next `headrace looker extract` reads "
                "only those"
            )
    if done.stopped:
        raise typer.Exit(Exit.INTERRUPTED)
    if done.still or done.pages:
        raise typer.Exit(Exit.PARTIAL)


def _report(failure: Failure, problem: str) -> None:
    said = f"failed again: {one_line(problem, longest=200)}" if problem else "is stored"
    typer.echo(f"{failure.type} {one_line(failure.key)} {said}")


def _as_json(done: RetryReport) -> dict[str, Any]:
    return {
        "session": done.session,
        "stored": [{"type": type_, "id": item_id} for type_, item_id in done.stored],
        "failed": [
            {"type": failure.type, "id": failure.key, "problem": problem}
            for failure, problem in done.still
        ],
        "pages": [{"type": failure.type, "page": failure.key} for failure in done.pages],
    }


def verify(
    types: Types = None,
    offline: Annotated[
        bool, typer.Option("--offline", help="Only the vault's own hashes; ask no server.")
    ] = False,
    vault: VaultPath = None,
    base_url: BaseUrl = "",
    rate: Rate = [],  # noqa: B006 - typer reads it, it is never changed
    outage_limit_s: OutageLimit = OUTAGE_LIMIT_S,
    as_json: Json = False,
) -> None:
    """Recompute every hash of the vault, then compare its items with the server, byte for byte.

    The comparison costs as many requests as an extraction. Exit code 1 if the vault is damaged, 4
    if it is whole and not what the server shows now.
    """
    wanted = known_types(types)
    checked, counts = VerifyCounts(), Counter[Problem]()
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
            f"{counted(checked.versions, 'version')} hashed, "
            f"{counted(checked.compared, 'item')} compared with the "
            f"server: {said or 'all as it should be'}"
        )
    if stopped:
        raise typer.Exit(Exit.INTERRUPTED)
    if counts[Problem.DAMAGED]:
        raise typer.Exit(Exit.FAILED)
    if counts:
        raise typer.Exit(Exit.PARTIAL)


def cleanup(
    keep_days: Annotated[
        float, typer.Option(min=0, help="What was replaced less than so many days ago stays.")
    ],
    keep_versions: Annotated[
        int, typer.Option(min=1, help="So many of the newest versions stay whatever their age.")
    ] = 1,
    gone: Annotated[
        bool, typer.Option("--gone", help="Also items that were proven gone that long ago.")
    ] = False,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Count; remove nothing.")] = False,
    vault: VaultPath = None,
    as_json: Json = False,
) -> None:
    """Remove versions that were replaced long ago; the current one of every item stays.

    The file does not shrink: what comes next uses the room. Take a snapshot first if in doubt.
    """
    with opened(vault, check=True) as target, hold_vault(target, "cleanup"):
        done = target.remove_old_versions(
            keep_days=keep_days, keep_versions=keep_versions, gone=gone, dry_run=dry_run
        )
    if as_json:
        print_json({"dry_run": dry_run, **asdict(done)})
    else:
        verb = "would be removed" if dry_run else "removed"
        typer.echo(
            f"{counted(done.versions, 'version')} ({done.freed_bytes / 1e6:,.1f} MB) "
            f"and {done.items:,} "
            f"items {verb}"
        )


validate = pipeline_command(
    "looker_validate",
    ValidateRequest,
    """Find looks, dashboards and schedules whose queries do not run any more.

    Asks Looker's own content validation, and with --run-queries each query as well. Exit code 4 if
    anything is broken. Logs in with LOOKERSDK_CLIENT_ID and LOOKERSDK_CLIENT_SECRET, or with those
    of a Looker block.
    """,
    name="validate",
    check=lambda request, _as_json: check_looker(request.base_url),
)
