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
from rich.live import Live

from headrace.amounts import duration
from headrace.cli.common import Json, print_json, result_console
from headrace.cli.lease import lease_dict
from headrace.cli.places import place_of_quotas
from headrace.cli.quota import breaker_words, quota_dict
from headrace.cli.sections import Section, Sections
from headrace.cli.server.configured import ConfiguredApi, present_api
from headrace.errors import HeadraceError
from headrace.leases import open_leases
from headrace.leases.this_machine import Liveness
from headrace.logs import safe_text
from headrace.pull.request import BLOCK_PREFIX
from headrace.quota.breaker import Phase
from headrace.quota.location import Place
from headrace.quota.status import QuotaStatus, inspect, known_names
from headrace.settings import Settings, load_settings
from headrace.wire.transport import Timeouts, Transport

#: A server that does not answer must not stop the view.
_LIMITS = Timeouts(connect_s=2.0, read_s=3.0, total_s=4.0)
_MOST_RUNS = 50
#: How soon a Ctrl-C is seen.
_SLICE_S = 0.1
_WHOLE = ("quota", "run", "lease", "for", "ends in")
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
    console = result_console()
    if once or not console.is_terminal:
        console.print(look(settings).drawn())
        return
    # The alternate screen: what was on the terminal before is there again at the end.
    with _until_a_signal() as ended, Live(console=console, screen=True, auto_refresh=False) as live:
        while not ended:
            live.update(look(settings).drawn(limited=True), refresh=True)
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

    def drawn(self, *, limited: bool = False) -> Sections:
        """The form for people: runs first, and quotas in use before others.

        Args:
            limited: to the height of the terminal.
        """
        in_use = sorted(self.quotas, key=lambda each: not each.book.processes)
        runs = [_run_row(each, self.at) for each in self.runs]
        brief_runs = [_run_row(each, self.at, brief=True) for each in self.runs]
        quotas = [_quota_row(each) for each in in_use]
        brief_quotas = [
            {**row, "state": each.health} for row, each in zip(quotas, in_use, strict=True)
        ]
        leases = [_lease_row(each, self.at) for each in self.leases]
        sections = (
            ("runs", runs, brief_runs, "no run is under way"),
            ("quotas", quotas, brief_quotas, "no quota was used yet"),
            ("leases", leases, leases, "no lease is held"),
        )
        return Sections(
            f"headrace top, {self.at:%Y-%m-%d %H:%M:%S} UTC",
            [
                Section(
                    f"{title} in {self.places[title]}" if title in self.places else title,
                    rows,
                    "" if any(each.startswith(title) for each in self.problems) else none,
                    whole=_WHOLE,
                    brief=brief,
                )
                for title, rows, brief, none in sections
            ],
            self.problems,
            limited,
        )

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
    for run in view.runs:
        run["process"] = _process(run["id"], view.leases)
    return view


def _process(run_id: str, leases: list[dict[str, Any]]) -> str | None:
    """What the leases that a run holds prove of its process; None where it holds none."""
    found = {each["process"] for each in leases if each["holder"]["run_id"] == run_id}
    # After a retry the leases of the process before may still be there.
    order = (Liveness.ALIVE, Liveness.UNKNOWN, Liveness.GONE)
    return next((each.value for each in order if each.value in found), None)


def _place_of_quotas(settings: Settings) -> Place:
    """Where quotas live; a block is read only where a Prefect API is there: none is started."""
    block = settings.quota.get_secret_value()
    if block.startswith(BLOCK_PREFIX) and present_api(settings.home / "prefect") is None:
        raise HeadraceError(
            f"HEADRACE_QUOTA names {block}, and no Prefect API is up", hint="Start it: headrace up"
        )
    return place_of_quotas(settings)


def _quota_row(status: QuotaStatus) -> dict[str, Any]:
    book, words = status.book, [status.health]
    if status.breaker.phase is not Phase.CLOSED or status.breaker.failures:
        words = [breaker_words(status.breaker)]
    if book.slowdown > 1:
        words.append(f"slowed to {100 / book.slowdown:.0f} %")
    return {
        "quota": status.name,
        "used": ", ".join(f"{window.used} of {window.rate}" for window in book.windows),
        "waiting": sum(book.waiting.values()),
        "processes": len(book.processes),
        "state": ", ".join(words),
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


def _run_row(run: dict[str, Any], now: datetime, *, brief: bool = False) -> dict[str, Any]:
    percent = "" if run["percent"] is None else f"{run['percent']:.0f} %"
    gone = run["process"] == Liveness.GONE.value
    parts = sorted((run["progress"] or "").split("; "), key=lambda each: each.endswith(", done"))
    # Of the first part that is under way; the percentage is that of all.
    more = f"; and {len(parts) - 1} more" if len(parts) > 1 else ""
    progress = parts[0].split(", ")[0] if brief else parts[0] + more
    return {
        "flow": run["flow"],
        "run": run["name"],
        "state": "process gone" if gone else run["state"],
        "for": _since(run["since"], now),
        "done": percent,
        "progress": progress,
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
