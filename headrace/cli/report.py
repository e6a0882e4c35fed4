"""`headrace report`: a lake as one HTML page."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Annotated

import typer

from headrace.amounts import counted
from headrace.atomic_files import check_place
from headrace.checks.request import CheckRequest
from headrace.cli.common import LakeOption
from headrace.cli.places import opened_store
from headrace.lake import look_into
from headrace.lake_report.facts import Noted, RunFacts
from headrace.lake_report.page_file import write_page
from headrace.settings import load_settings


def report(
    output: Annotated[Path, typer.Option(help="The file; one that is there is replaced.")] = Path(
        "headrace-report.html"
    ),
    lake: LakeOption = "",
    check_last: Annotated[
        str,
        typer.Option(help="Make the checks on rows of this length of time; none: make no checks."),
    ] = "1d",
    runs: Annotated[
        bool,
        typer.Option("--runs", help="Ask the Prefect API for the last runs, and for what failed."),
    ] = False,
) -> None:
    """Make one HTML page of a lake: what is stored, and what not.

    The page needs no server and no network: it is one file, to be opened in any browser.
    """
    checks = None
    if check_last != "none":
        checks = CheckRequest.checked(lake=lake or load_settings().lake, last=check_last)
    with opened_store(lake, quiet=False) as store:
        opened = look_into(store)
        check_place(output, opened.location, force=True)  # before anything that takes time
        noted, last = _from_prefect(opened.location) if runs else (None, None)
        facts = write_page(opened, output, checks=checks, noted=noted, runs=last)
    typer.echo(f"{output}: {counted(len(facts.products), 'product')} of {facts.location}")


def _from_prefect(location: str) -> tuple[Mapping[tuple[str, str], Noted], Sequence[RunFacts]]:
    """What checkpoints of the lake say, and the last runs."""
    from headrace.cli.server import api_for_run
    from headrace.cli.server.run import say_on_stderr

    with api_for_run(load_settings().home, say=say_on_stderr):
        from tasks.lake_report import of_prefect

        return of_prefect(location)
