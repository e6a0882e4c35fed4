"""`headrace doctor`: what would keep a run from working, and what to do about it."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.console import Console
from rich.text import Text

from headrace.amounts import counted
from headrace.cli.common import Json, LakeOption, print_json
from headrace.cli.exit_codes import Exit
from headrace.cli.server.configured import configured_api, managed_port, present_api
from headrace.cli.server.environment import client_environment
from headrace.doctor import CHECKS, Api, CheckResult, Severity, Target, run_checks
from headrace.doctor.runner import LIMIT_S
from headrace.errors import ConfigurationError
from headrace.lake import Store
from headrace.lake.opening import make_store
from headrace.lake.s3_settings import s3_from_environment
from headrace.pull.request import BLOCK_PREFIX
from headrace.quota.location import Place
from headrace.settings import Settings, load_settings

_STYLES = {Severity.OK: "green", Severity.WARNING: "yellow", Severity.PROBLEM: "red"}

#: A store that does not answer is reported soon.
_HASTY = {"connect_timeout_s": 3, "read_timeout_s": 5, "give_up_after_s": 4, "longest_pause_s": 1}


def doctor(
    lake: LakeOption = "",
    base_url: Annotated[
        str, typer.Option(help="Address of the exchange. [HEADRACE_COINBASE_URL]")
    ] = "",
    rate: Annotated[str, typer.Option(help="What the exchange allows. [HEADRACE_RATE]")] = "",
    limit_s: Annotated[
        float,
        typer.Option(
            min=1,
            max=300,
            help="Seconds after which a check that has no result is reported as hanging.",
        ),
    ] = LIMIT_S,
    as_json: Json = False,
) -> None:
    """Check what runs need: settings, server, exchange, lake; name a remedy per problem.

    Nothing is changed. Exit code 0: runs will work (there may be warnings), 1: something keeps
    them from working.
    """
    try:
        settings = load_settings()
        target = target_of(settings, lake=lake, base_url=base_url, rate=rate)
    except ConfigurationError as error:
        # Without settings there is nothing to look at, and that is what was found.
        _show_refusal(error, as_json=as_json)
        raise typer.Exit(Exit.FAILED) from error
    results = []
    for result in run_checks(CHECKS, target, limit_s=limit_s):
        results.append(result)
        if not as_json:
            _show(result)
    bad = any(result.severity is Severity.PROBLEM for result in results)
    if as_json:
        print_json({"ok": not bad, "checks": [_as_dict(result) for result in results]})
    else:
        _show_end(results)
    raise typer.Exit(Exit.FAILED if bad else Exit.DONE)


def target_of(settings: Settings, *, lake: str, base_url: str, rate: str) -> Target:
    """What is to be checked, found without making anything.

    Raises:
        ConfigurationError: a settings file of Prefect's cannot be read.
    """
    home = settings.home.expanduser().absolute() / "prefect"
    place = lake or settings.lake
    return Target(
        settings=settings,
        lake=place,
        base_url=base_url or settings.coinbase_url,
        rate=rate or settings.rate,
        api=_api(home),
        database=home / "prefect.db",
        open_store=_opener(place, home),
        find_quotas=lambda: _place_of_quotas(settings, home),
    )


def _api(home: Path) -> Api | None:
    """The configured API, else that of the managed server if its process lives."""
    found = present_api(home)
    if found is None:
        return None
    return Api(found.api_url, found.source, found.headers, managed=configured_api() is None)


def _opener(place: str, home: Path) -> Callable[[], Store]:
    if not place.startswith(BLOCK_PREFIX):
        return lambda: make_store(place, s3=s3_from_environment(**_HASTY))
    return lambda: _store_of_block(place, home)


def _place_of_quotas(settings: Settings, home: Path) -> Place:
    named = settings.quota.get_secret_value()
    if not named.startswith(BLOCK_PREFIX):
        return settings.quota_place
    _reach_blocks(named, home)
    from blocks.resolve import quota_place

    return quota_place(settings)


def _store_of_block(place: str, home: Path) -> Store:
    _reach_blocks(place, home)
    from blocks.resolve import lake_of

    return lake_of(place).store()


def _reach_blocks(named: str, home: Path) -> None:
    """Have blocks looked up at the API that commands would use.

    Raises:
        ConfigurationError: none is up.
    """
    api = _api(home)
    if api is None:
        raise ConfigurationError(
            f"{named} cannot be looked up, since no Prefect API is up", hint="headrace up"
        )
    import os

    if api.managed and (port := managed_port(home)) is not None:
        os.environ.update(client_environment(port))


def _show(result: CheckResult) -> None:
    console = Console()
    for finding in result.findings:
        line = Text(f"{finding.severity.value:8}", style=_STYLES[finding.severity])
        line.append(f"{result.check:12}", style="bold").append(finding.what, style="default")
        console.print(line, soft_wrap=True)
        if finding.remedy:
            console.print(Text(f"{'':20}-> {finding.remedy}"), soft_wrap=True)


def _show_end(results: list[CheckResult]) -> None:
    found = [finding.severity for result in results for finding in result.findings]
    problems, warnings = found.count(Severity.PROBLEM), found.count(Severity.WARNING)
    verdict = "runs will not work" if problems else "runs will work"
    typer.echo(f"{counted(problems, 'problem')}, {counted(warnings, 'warning')}: {verdict}")


def _show_refusal(error: ConfigurationError, *, as_json: bool) -> None:
    if as_json:
        remedy = error.hint or "Correct it, or unset it to have the default"
        finding = {"severity": "problem", "what": error.message, "remedy": remedy}
        check = {"check": "settings", "severity": "problem", "elapsed_s": 0.0}
        print_json({"ok": False, "checks": [{**check, "findings": [finding]}]})
    else:
        typer.echo(f"problem settings    {error}")


def _as_dict(result: CheckResult) -> dict[str, Any]:
    return {
        "check": result.check,
        "severity": result.severity.value,
        "elapsed_s": round(result.elapsed_s, 3),
        "findings": [
            {
                "severity": finding.severity.value,
                "what": finding.what,
                "remedy": finding.remedy or None,
            }
            for finding in result.findings
        ],
    }
