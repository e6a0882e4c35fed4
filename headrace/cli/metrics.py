"""`headrace metrics …`: which metrics there are, and alarms on them."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Annotated, Any

import typer

from headrace.cli.common import Json, print_json
from headrace.errors import ConfigurationError
from headrace.metrics import CATALOGUE, MetricsSettingError, parse_sink
from headrace.metrics.alarms import Thresholds, prometheus_rules, put_alarms
from headrace.settings import load_settings
from headrace.wire.transport import quota_name

app = typer.Typer(help="Metrics of runs, and alarms on them.", no_args_is_help=True)
alarms_app = typer.Typer(help="Alarms with the thresholds that ship.", no_args_is_help=True)
app.add_typer(alarms_app, name="alarms")

Response = Annotated[float, typer.Option(min=0, help="Mean seconds of an answer.")]
ErrorRate = Annotated[
    float, typer.Option(min=0, max=100, help="Percent of requests that the server failed.")
]
Throttles = Annotated[int, typer.Option(min=0, help="Answers 429 in a minute.")]
BreakerOpens = Annotated[int, typer.Option(min=0, help="Times the breaker opened in a minute.")]
DataAge = Annotated[
    float, typer.Option(min=0, help="Seconds since the newest row; 0: no such alarm.")
]


@app.command("list")
def list_metrics(as_json: Json = False) -> None:
    """List every metric: its names, its unit, and where metrics are sent."""
    kind, where = parse_sink(load_settings().metrics)
    if as_json:
        rows = [_as_dict(metric) for metric in CATALOGUE]
        print_json({"sink": kind, "where": where or None, "metrics": rows})
        return
    for metric in CATALOGUE:
        cloud = f"CloudWatch {metric.cloud_name} in {metric.unit}"
        typer.echo(f"{metric.prometheus_name}  ({cloud}; by {', '.join(metric.labels)})")
        typer.echo(f"    {metric.help}")
    typer.echo(f"HEADRACE_METRICS sends them to {kind}{f' {where}' if where else ''}.")


@alarms_app.command()
def cloudwatch(
    namespace: Annotated[
        str, typer.Option(help="Where the metrics go; default: that of HEADRACE_METRICS.")
    ] = "",
    source: Annotated[
        str, typer.Option(help="Host of the exchange; default: that of HEADRACE_COINBASE_URL.")
    ] = "",
    action: Annotated[
        list[str] | None,
        typer.Option(help="ARN to notify, of an SNS topic for example. Repeatable."),
    ] = None,
    response_s: Response = 3.0,
    error_rate: ErrorRate = 10.0,
    throttles_per_minute: Throttles = 10,
    breaker_opens: BreakerOpens = 0,
    data_age_s: DataAge = 0.0,
    region: Annotated[str, typer.Option(help="AWS region; default: boto3's own.")] = "",
    as_json: Json = False,
) -> None:
    """Make or replace the CloudWatch alarms about one exchange."""
    from headrace.metrics.cloudwatch import make_client

    limits = Thresholds(response_s, error_rate, throttles_per_minute, breaker_opens, data_age_s)
    place = namespace or _configured_namespace()
    host = source or quota_name(load_settings().coinbase_url)
    names = put_alarms(make_client(region or None), place, host, limits, actions=action or [])
    if as_json:
        print_json({"namespace": place, "source": host, "alarms": names})
        return
    for name in names:
        typer.echo(name)
    if not action:
        typer.echo("They show in CloudWatch only; --action ARN sends notifications.", err=True)


@alarms_app.command()
def prometheus(
    path: Annotated[
        Path | None, typer.Argument(help="The rules file; default: standard output.")
    ] = None,
    response_s: Response = 3.0,
    error_rate: ErrorRate = 10.0,
    throttles_per_minute: Throttles = 10,
    breaker_opens: BreakerOpens = 0,
    data_age_s: DataAge = 0.0,
    window: Annotated[
        str, typer.Option(help="Of rates; at least two scrapes long, as in 2m.")
    ] = "2m",
    force: Annotated[bool, typer.Option("--force", help="Replace a file that is there.")] = False,
) -> None:
    """Write the alarms as a rules file for Prometheus."""
    limits = Thresholds(response_s, error_rate, throttles_per_minute, breaker_opens, data_age_s)
    if not (window[:-1].isdigit() and window[-1:] in "smh" and int(window[:-1]) > 0):
        raise ConfigurationError(f"--window {window!r} is not a length of time", hint="Write 2m")
    rules = prometheus_rules(limits, window=window)
    if path is None:
        sys.stdout.write(rules)
        return
    try:
        with path.open("w" if force else "x", encoding="utf-8") as file:
            file.write(rules)
    except FileExistsError as error:
        raise ConfigurationError(
            f"{path} is there already", hint="Repeat with --force to replace it"
        ) from error
    except OSError as error:
        raise ConfigurationError(f"{path} cannot be written: {error.strerror or error}") from error
    typer.echo(f"{path}: name it under rule_files in prometheus.yml, then reload Prometheus")


def _configured_namespace() -> str:
    setting = load_settings().metrics
    kind, where = parse_sink(setting)
    if kind != "cloudwatch":
        raise MetricsSettingError(setting, "metrics do not go to CloudWatch; give --namespace")
    return where


def _as_dict(metric: Any) -> dict[str, Any]:
    return {
        "prometheus": metric.prometheus_name,
        "cloudwatch": metric.cloud_name,
        "kind": metric.kind.value,
        "unit": metric.unit,
        "labels": list(metric.labels),
        "help": metric.help,
    }
