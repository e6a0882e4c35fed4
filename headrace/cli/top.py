"""`headrace top`: quotas, breakers, leases and runs, drawn again and again.

Those of this machine, or those that it shares with others where its settings name a server of them.
"""

from __future__ import annotations

import json
import signal
import time
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from datetime import UTC, datetime
from types import FrameType
from typing import Annotated, Any
from urllib.parse import urlsplit

import typer
from rich.console import Console, Group, RenderableType
from rich.live import Live
from rich.text import Text

from headrace.amounts import duration
from headrace.cli.common import Json, print_json, table_of
from headrace.cli.lease import lease_dict
from headrace.cli.places import place_of_quotas
from headrace.cli.quota import breaker_words, quota_dict
from headrace.cli.server.configured import ConfiguredApi, present_api
from headrace.errors import HeadraceError
from headrace.leases import open_leases
from headrace.logs import safe_text
from headrace.pull.request import BLOCK_PREFIX
from headrace.quota.location import Place
from headrace.quota.status import QuotaStatus, inspect, known_names
from headrace.settings import Settings, load_settings
from headrace.wire.transport import Timeouts, Transport

#: A server that does not answer must not stop the view.
_LIMITS = Timeouts(connect_s=2.0, read_s=3.0, total_s=4.0)
_MOST_RUNS = 50
#: How soon a Ctrl-C is seen.
_SLICE_S = 0.1
_UNDER_WAY = ("RUNNING", "PENDING", "CANCELLING")


def top(
    once: Annotated[bool, typer.Option("--once", help="Show it once, and end.")] = False,
    interval_s: Annotated[
        float, typer.Option(min=0.5, max=3600, help="Seconds between two looks.")
    ] = 2.0,
    as_json: Json = False,
) -> None:
    """Watch quotas, breakers, leases and runs, until Ctrl-C.

    Those of this machine, or those that machines share where HEADRACE_QUOTA and HEADRACE_LEASES
    name servers. Where standard output is no terminal, and with --json, it shows them once. Nothing
    is changed.
    """
    settings = load_settings()
    if as_json:
        print_json(look(settings).as_json())
        return
    console = Console()
    if once or not console.is_terminal:
        console.print(look(settings).drawn())
        return
    # The alternate screen: what was on the terminal before is there again at the end.
    with _until_a_signal() as ended, Live(console=console, screen=True, auto_refresh=False) as live:
        while not ended:
            live.update(look(settings).drawn(), refresh=True)
            again = time.monotonic() + interval_s
            while not ended and time.monotonic() < again:
                time.sleep(_SLICE_S)


@contextmanager
def _until_a_signal() -> Iterator[list[int]]:
    """A list that the first Ctrl-C or SIGTERM is put into; a second one does what it always does.

    An exception out of a handler could be swallowed by what is being drawn or closed just then.
    """
    ended: list[int] = []
    before = {sign: signal.getsignal(sign) for sign in (signal.SIGINT, signal.SIGTERM)}

    def end(number: int, _frame: FrameType | None) -> None:
        ended.append(number)
        signal.signal(number, before[signal.Signals(number)])

    for sign in before:
        signal.signal(sign, end)
    try:
        yield ended
    finally:
        for sign, handler in before.items():
            signal.signal(sign, handler)


class View:
    """What was seen at one moment; of what cannot be read, why not."""

    def __init__(self) -> None:
        self.at = datetime.now(UTC)
        self.places: dict[str, str] = {}
        self.quotas: list[QuotaStatus] = []
        self.leases: list[dict[str, Any]] = []
        self.runs: list[dict[str, Any]] = []
        self.problems: list[str] = []

    def as_json(self) -> dict[str, Any]:
        """The form of `--json`."""
        return {
            "at": self.at.isoformat(),
            "places": self.places,
            "quotas": [quota_dict(each) for each in self.quotas],
            "leases": self.leases,
            "runs": self.runs,
            "problems": self.problems,
        }

    def drawn(self) -> RenderableType:
        """The form for people."""
        parts: list[RenderableType] = [Text(f"headrace top, {self.at:%Y-%m-%d %H:%M:%S} UTC")]
        for title, rows, none in (
            ("quotas", [_quota_row(each) for each in self.quotas], "no quota was used yet"),
            ("leases", [_lease_row(each, self.at) for each in self.leases], "no lease is held"),
            ("runs", [_run_row(each, self.at) for each in self.runs], "no run is under way"),
        ):
            where = f"{title} in {self.places[title]}" if title in self.places else title
            if rows:
                parts.append(table_of(rows, where))
            elif not any(problem.startswith(title) for problem in self.problems):
                parts.append(Text(f"{where}: {none}", style="dim"))
        parts += [Text(problem, style="yellow") for problem in self.problems]
        return Group(*parts)

    @contextmanager
    def naming(self, what: str) -> Iterator[None]:
        """Have an error of a `with` block stand in the view: the rest is shown all the same."""
        try:
            yield
        except (HeadraceError, OSError, ValueError) as error:
            self.problems.append(f"{what}: {safe_text(str(error) or repr(error))}")


def look(settings: Settings) -> View:
    """See how everything is now."""
    view = View()
    with view.naming("quotas"):
        place = _place_of_quotas(settings)
        view.places["quotas"] = str(place)
        for name in known_names(place):
            with view.naming(f"quota {name}"):
                view.quotas.append(inspect(place, name))
    with view.naming("leases"):
        # Asked once: the next look asks again.
        store = open_leases(settings.lease_location, patience_s=0.0)
        view.places["leases"] = store.where
        view.leases += [lease_dict(store, state) for state in store.list() if state.holder]
    with view.naming("runs"):
        api = present_api(settings.home / "prefect")
        if api is not None:
            view.runs += _runs(api)
    return view


def _place_of_quotas(settings: Settings) -> Place:
    """Where quotas live; a block is read only where a Prefect API is there: none is started."""
    block = settings.quota.get_secret_value()
    if block.startswith(BLOCK_PREFIX) and present_api(settings.home / "prefect") is None:
        raise HeadraceError(
            f"HEADRACE_QUOTA names {block}, and no Prefect API is up", hint="Start it: headrace up"
        )
    return place_of_quotas(settings)


def _quota_row(status: QuotaStatus) -> dict[str, Any]:
    book = status.book
    return {
        "quota": status.name,
        "health": status.health,
        "used": ", ".join(
            f"{window.used} of {window.rate.limit} ({window.rate})" for window in book.windows
        ),
        "speed": f"{100 / book.slowdown:.0f} %",
        "waiting": sum(book.waiting.values()),
        "processes": len(book.processes),
        "breaker": breaker_words(status.breaker),
    }


def _lease_row(lease: dict[str, Any], now: datetime) -> dict[str, Any]:
    holder = lease["holder"]
    left_s = (datetime.fromisoformat(holder["expires"]) - now).total_seconds()
    return {
        "lease": lease["name"],
        "status": lease["standing"],
        "holder": f"{holder['host']} pid {holder['pid']}",
        "process": lease["process"],
        "for": _since(holder["since"], now),
        "ends in": duration(max(0.0, left_s)),
    }


def _run_row(run: dict[str, Any], now: datetime) -> dict[str, Any]:
    percent = "" if run["percent"] is None else f"{run['percent']:.0f} %"
    return {
        "flow": run["flow"],
        "run": run["name"],
        "state": run["state"],
        "for": _since(run["since"], now),
        "done": percent,
        "progress": run["progress"] or "",
    }


def _since(moment: str | None, now: datetime) -> str:
    began = datetime.fromisoformat(moment) if moment else now
    return duration(max(0.0, (now - began).total_seconds()))


def _runs(api: ConfiguredApi) -> list[dict[str, Any]]:
    """The runs under way, with how far each is; asked of the API without Prefect, which is slow."""
    parts = urlsplit(api.api_url)
    headers = {"Content-Type": "application/json", **api.headers}
    with closing(Transport(f"{parts.scheme}://{parts.netloc}", timeouts=_LIMITS)) as transport:

        def ask(path: str, body: dict[str, Any]) -> Any:
            target = f"{parts.path.rstrip('/')}/{path}/filter"
            answer = transport.send("POST", target, headers, json.dumps(body).encode())
            if answer.status != 200:
                raise HeadraceError(f"{api.api_url} answered {answer.status}")
            return json.loads(answer.body)

        return _of_answers(ask)


def _of_answers(ask: Callable[[str, dict[str, Any]], Any]) -> list[dict[str, Any]]:
    runs = ask(
        "flow_runs",
        {
            "flow_runs": {"state": {"type": {"any_": list(_UNDER_WAY)}}},
            "sort": "START_TIME_DESC",
            "limit": _MOST_RUNS,
        },
    )
    if not runs:
        return []
    ids = [run["id"] for run in runs]
    flows = {
        flow["id"]: flow["name"]
        for flow in ask("flows", {"flows": {"id": {"any_": [run["flow_id"] for run in runs]}}})
    }
    bars = {
        bar["flow_run_id"]: bar
        for bar in ask(
            "artifacts",
            {"artifacts": {"flow_run_id": {"any_": ids}, "type": {"any_": ["progress"]}}},
        )
    }
    return [
        {
            "id": run["id"],
            "flow": flows.get(run["flow_id"], ""),
            "name": run["name"],
            "state": run["state_name"],
            "since": run["start_time"],
            "percent": bars[run["id"]]["data"] if run["id"] in bars else None,
            "progress": bars[run["id"]]["description"] if run["id"] in bars else None,
        }
        for run in runs
    ]
