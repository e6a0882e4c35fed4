"""`headrace sim …`: simulated servers to rehearse with."""

from __future__ import annotations

import json
import os
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path
from typing import Annotated, Any, get_args

import typer

from headrace.amounts import counted
from headrace.sim import ExchangeSettings, SpecError
from headrace.sim.faults import F
from headrace.sim.http import HOST
from headrace.sim.keyed import KeyedSettings, KeyedSimulation, make_keys
from headrace.sim.limits import Limit, RetryAfter, parse_bucket, parse_window
from headrace.sim.looker import LookerSettings, LookerSimulation
from headrace.sim.service import SimulatedService
from headrace.sim.serving import serve
from headrace.sim.simulation import ExchangeSimulation

app = typer.Typer(
    help="Simulated servers (exchange, Looker, an exchange with API keys) for rehearsals.",
    no_args_is_help=True,
)


Window = Annotated[
    list[str] | None,
    typer.Option(help="Strict sliding window over arrivals: 10/s or 100/60s. Repeatable."),
]
RetryAfterForm = Annotated[
    str, typer.Option(help="Retry-After of a 429: absent, seconds, date or zero.")
]
Host = Annotated[
    str,
    typer.Option(
        help="Address to listen on; 0.0.0.0 for a container's. There is no authentication."
    ),
]
PortFile = Annotated[
    Path | None, typer.Option(help="Write the port here once ready; removed at the end.")
]
Json = Annotated[bool, typer.Option("--json", help="The address as one line of JSON.")]


@app.command()
def exchange(
    product: Annotated[
        list[str] | None,
        typer.Option(
            help="ID:TRADES[,field=value…], for example DOGE-USD:5000,density=0.3. Repeatable. "
            "Fields: first_id, density, gaps, price, trades_per_s, growth_per_s, "
            "growth_per_request, listing. Without any: one product of each kind."
        ),
    ] = None,
    port: Annotated[
        int | None, typer.Option(help="0 picks a free one; default: 8080.", min=0, max=65_535)
    ] = None,
    rate: Annotated[
        str, typer.Option(help="Token bucket as the exchange documents it: 10/s. none: no bucket.")
    ] = "none",
    burst: Annotated[int, typer.Option(help="What the bucket holds; it starts full.", min=1)] = 15,
    window: Window = None,
    retry_after: RetryAfterForm = "absent",
    latency: Annotated[
        str | None,
        typer.Option(
            help="constant:s=0.2, uniform:low=0.1,high=0.3 or lognormal:p50=0.2,p95=0.8; seconds, "
            "with inbound=SHARE for what passes before the limit counts."
        ),
    ] = None,
    fault: Annotated[
        list[str] | None,
        typer.Option(
            help="KIND[,field=value…], for example respond,status=503,probability=0.01 or "
            "cut,how=chunked,product=BTC-USD,calls=2 or html,between_s=10:20. Repeatable. Kinds: "
            "respond, html, malformed, cut, reset, hang, drip, stuck, stale, empty, refuse."
        ),
    ] = None,
    seed: Annotated[
        int | None, typer.Option(help="Of trades, delays and chances; default: 0.")
    ] = None,
    now: Annotated[
        str | None,
        typer.Option(
            help="Time of the newest trades (ISO 8601); default: the present. With seed and "
            "product it decides every trade: give it to meet the same ones in a later run."
        ),
    ] = None,
    config: Annotated[
        Path | None,
        typer.Option(
            help="JSON file of products, seed, now_s, latency, limits, faults, keys, key_limits, "
            "port; options replace its values, products, limits and faults come on top.",
            exists=True,
            dir_okay=False,
        ),
    ] = None,
    host: Host = HOST,
    port_file: PortFile = None,
    as_json: Json = False,
) -> None:
    """Serve the wire format of Coinbase Exchange's market data, with generated trades.

    Stops at Ctrl-C. What it serves is decided by seed, product and --now: another start with
    the same ones continues the same history; its growth starts again. Counts are at
    /_sim/stats, the settings at /_sim/settings.
    """
    given = {
        "port": port,
        "seed": seed,
        "latency": latency,
        "now_s": None if now is None else _unix_s(now),
    }
    fields = {"port": 8080, **_from_file(config)}
    fields |= {name: value for name, value in given.items() if value is not None}
    fields["faults"] = [*fields.get("faults", []), *(fault or [])]
    fields["limits"] = [*fields.get("limits", []), *_limits(rate, burst, window or [], retry_after)]
    products = [*fields.pop("products", []), *(product or [])]
    settings = ExchangeSettings.of(*products, **fields)
    ids = [spec.id for spec in settings.products]
    newest = datetime.fromtimestamp(settings.now_s, UTC).isoformat().replace("+00:00", "Z")
    about = f"{', '.join(ids)} (--now {newest} continues them another time)"
    announce = _announcer("exchange", about, port_file, {"products": ids}, as_json=as_json)
    _serve(ExchangeSimulation(settings), settings.port, announce, port_file, as_json, host=host)


@app.command()
def looker(
    count: Annotated[
        list[str] | None,
        typer.Option(help="KIND=N, for example dashboard=50000. Repeatable; others: default."),
    ] = None,
    big: Annotated[
        list[str] | None,
        typer.Option(help="TYPE:ID=BYTES, for example dashboard:17=25000000. Repeatable."),
    ] = None,
    slow: Annotated[
        list[str] | None,
        typer.Option(help="TYPE:ID=SECONDS, for example dashboard:18=130. Repeatable."),
    ] = None,
    port: Annotated[int, typer.Option(help="0 picks a free one.", min=0, max=65_535)] = 8081,
    client_id: Annotated[str, typer.Option(help="The one that may log in.")] = "headrace",
    client_secret: Annotated[str, typer.Option(help="Its secret.")] = "simulated-secret",
    token_s: Annotated[float, typer.Option(help="How long a token lasts, in seconds.")] = 3600.0,
    page_most: Annotated[
        int | None, typer.Option(help="The server's own limit on `limit`.", min=1)
    ] = None,
    window: Window = None,
    retry_after: RetryAfterForm = "absent",
    latency: Annotated[
        str | None, typer.Option(help="As for the exchange, for example constant:s=0.2.")
    ] = None,
    fault: Annotated[
        list[str] | None,
        typer.Option(
            help="KIND[,field=value…], for example error,status=500,type=look,id=7 or "
            "html,ask=list,type=dashboard,offset=297. Repeatable. Kinds: error, revoke, slow, "
            "respond, html, cut, reset, hang, drip, refuse."
        ),
    ] = None,
    change: Annotated[
        list[str] | None,
        typer.Option(
            help="What happens to the content while it is read: remove, trash, rename or create "
            "KIND:ID after N requests, for example 'remove dashboard:7 after 3'. Repeatable."
        ),
    ] = None,
    seed: Annotated[int, typer.Option(help="Of texts, delays and chances.")] = 0,
    port_file: PortFile = None,
    as_json: Json = False,
) -> None:
    """Serve Looker's API 4.0 as its SDK speaks it, with generated content.

    Stops at Ctrl-C. Counts and controls: see headrace.sim.control for the paths below /_sim/.
    """
    settings = LookerSettings.of(
        counts=_numbers("--count", count or []),
        big=_numbers("--big", big or []),
        slow=_numbers("--slow", slow or []),
        port=port,
        client_id=client_id,
        client_secret=client_secret,
        token_s=token_s,
        page_most=page_most,
        limits=_limits("none", 1, window or [], retry_after),
        latency=latency or "constant:s=0",
        faults=fault or [],
        changes=change or [],
        seed=seed,
    )
    about = counted(sum(settings.counts.values()), "item")
    announce = _announcer("Looker", about, port_file, {"counts": settings.counts}, as_json=as_json)
    _serve(LookerSimulation(settings), settings.port, announce, port_file, as_json)


@app.command()
def keyed_exchange(
    keys: Annotated[
        int | None, typer.Option(help="So many keys, simulated-key-1 and so on; default: 5.", min=1)
    ] = None,
    key: Annotated[
        list[str] | None, typer.Option(help="A key of your own in their place. Repeatable.")
    ] = None,
    window: Annotated[
        str, typer.Option(help="What is accepted of each key, by arrival: 20/s or 100/60s.")
    ] = "20/s",
    block_after: Annotated[
        int, typer.Option(help="So many answers 429 block a key for good.", min=1)
    ] = 10,
    inbound: Annotated[
        str,
        typer.Option(
            help="The way of a request to the server, in seconds: constant:s=0.02, "
            "uniform:low=0,high=0.05 or, with a heavy tail (P99 0.3), "
            "lognormal:p50=0.025,p95=0.145."
        ),
    ] = "uniform:low=0,high=0.05",
    outbound: Annotated[
        str, typer.Option(help="The way of its answer back, written as --inbound.")
    ] = "uniform:low=0,high=0.05",
    clock_step_s: Annotated[
        float,
        typer.Option(
            help="The clock that dates answers steps so many seconds ahead, and back, every 10 s."
        ),
    ] = 0.0,
    fault: Annotated[
        list[str] | None,
        typer.Option(
            help="KIND[,field=value…], for example respond,status=401,key=2,between_s=10:20. "
            "Repeatable. Kinds: respond, html, cut, reset, hang, drip, slow, refuse."
        ),
    ] = None,
    port: Annotated[int, typer.Option(help="0 picks a free one.", min=0, max=65_535)] = 8082,
    seed: Annotated[int, typer.Option(help="Of delays and chances.")] = 0,
    port_file: PortFile = None,
    as_json: Json = False,
) -> None:
    """Serve an exchange that limits, orders (by nonce) and blocks requests by their API key.

    Stops at Ctrl-C. What it answers: headrace.sim.keyed.simulation. Counts by key, and
    controls: see headrace.sim.control for the paths below /_sim/.
    """
    if keys is not None and key:
        raise SpecError(
            "--keys", str(keys), "--key names the keys already", hint="Give one of both"
        )
    each = parse_window(window)
    settings = KeyedSettings.of(
        keys=key or make_keys(5 if keys is None else keys),
        limit=each.requests,
        per_s=each.per_s,
        block_after=block_after,
        inbound=inbound,
        outbound=outbound,
        clock_step_s=clock_step_s,
        faults=fault or [],
        seed=seed,
        port=port,
    )
    about = f"{counted(len(settings.keys), 'key')}, {window} each"
    more = {"keys": len(settings.keys)}
    announce = _announcer("keyed exchange", about, port_file, more, as_json=as_json)
    _serve(KeyedSimulation(settings), settings.port, announce, port_file, as_json)


def _serve(
    service: SimulatedService[F],
    port: int,
    announce: Callable[[str], None],
    port_file: Path | None,
    as_json: bool,
    *,
    host: str = HOST,
) -> None:
    """Serve until a signal; then print how many requests were answered."""
    try:
        serve(service, port, announce, host=host)
    finally:
        if port_file is not None:
            port_file.unlink(missing_ok=True)
    if not as_json:
        typer.echo(_ended(service.stats()))


def _numbers(option: str, given: list[str]) -> dict[str, float]:
    numbers = {}
    for text in given:
        name, equals, number = text.rpartition("=")
        try:
            numbers[name] = float(number)
        except ValueError:
            equals = ""
        if not equals:
            raise SpecError(option, text, "not NAME=NUMBER")
    return numbers


def _ended(stats: dict[str, Any]) -> str:
    statuses = ", ".join(f"{n} x {status}" for status, n in stats["by_status"].items())
    return f"answered {counted(stats['requests'], 'request')} ({statuses or 'none'})"


def _announcer(
    what: str, about: str, port_file: Path | None, more: dict[str, Any], *, as_json: bool
) -> Callable[[str], None]:
    def announce(url: str) -> None:
        port = int(url.rpartition(":")[2])
        if port_file is not None:
            unfinished = port_file.with_name(f"{port_file.name}.{os.getpid()}")
            unfinished.write_text(f"{port}\n")
            unfinished.replace(port_file)
        if as_json:
            typer.echo(json.dumps({"url": url, "port": port, "pid": os.getpid(), **more}))
        else:
            typer.echo(f"simulated {what} at {url} with {about}; Ctrl-C stops it")

    return announce


def _limits(rate: str, burst: int, windows: list[str], retry_after: str) -> list[Limit]:
    forms: tuple[RetryAfter, ...] = get_args(RetryAfter)
    form = next((form for form in forms if form == retry_after), None)
    if form is None:
        raise SpecError("--retry-after", retry_after, f"not one of {', '.join(forms)}")
    limits: list[Limit] = [parse_window(window, retry_after=form) for window in windows]
    if rate != "none":
        limits.append(parse_bucket(rate, burst=burst, retry_after=form))
    return limits


def _from_file(config: Path | None) -> dict[str, Any]:
    if config is None:
        return {}
    try:
        fields = json.loads(config.read_text())
    except (OSError, ValueError) as error:
        raise SpecError("--config", str(config), f"no JSON file: {error}") from error
    if not isinstance(fields, dict):
        raise SpecError("--config", str(config), "not a JSON object")
    return fields


def _unix_s(text: str) -> int:
    try:
        moment = datetime.fromisoformat(text)
    except ValueError as error:
        raise SpecError("--now", text, str(error)) from error
    return int((moment if moment.tzinfo else moment.replace(tzinfo=UTC)).timestamp())
