"""What `headrace status` says of schedules: the last run, the next one, in few requests."""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

import msgspec

from headrace.cli import up
from headrace.cli.server.schedules import LastRun, Schedule, schedules_of
from headrace.cli.server.status import ProcessStatus, ServerStatus

NOON = datetime(2026, 1, 1, 12, tzinfo=UTC)
SERVED = ["ingest/often", "check/hourly", "audit/nightly", "sot/off", "transform/paused"]


class Api:
    """Deployments, and runs of them; it counts what it is asked."""

    def __init__(self) -> None:
        self.asked: list[str] = []
        self.delay_s = 0.0
        self.status = 200
        self.runs = [
            *(self.run("ingest", "Completed", NOON - timedelta(minutes=n)) for n in range(400)),
            *(self.run("ingest", "Scheduled", NOON + timedelta(minutes=n)) for n in range(1, 9)),
            self.run("check", "Failed", NOON - timedelta(hours=20)),
            self.run("check", "Late", NOON - timedelta(minutes=3)),
        ]

    def run(self, deployment: str, state: str, at: datetime) -> dict[str, Any]:
        kind = {"Late": "SCHEDULED"}.get(state, state.upper())
        done = at.isoformat() if kind != "SCHEDULED" else None
        return {
            "deployment_id": deployment, "name": f"{deployment}-run", "state_name": state,
            "state_type": kind, "expected_start_time": at.isoformat(), "start_time": done,
            "end_time": done,
        }  # fmt: skip

    def answer(self, path: str, body: dict[str, Any]) -> list[dict[str, Any]]:
        kind = path.split("/")[-2]
        self.asked.append(kind)
        if kind == "deployments":
            names = body["deployments"]["name"]["any_"]
            # Another server's deployment may have the name of one of ours.
            stored = [*(name.split("/") for name in SERVED), ["foreign", "often"]]
            return [
                {
                    "id": flow, "flow_id": f"flow-{flow}", "name": name,
                    "paused": name == "paused",
                    "schedules": [{"active": False}, {"active": name != "off"}],
                }
                for flow, name in stored if name in names
            ]  # fmt: skip
        if kind == "flows":
            return [{"id": one, "name": one[5:]} for one in body["flows"]["id"]["any_"]]
        wanted = body["flow_runs"]
        found = [
            run
            for run in self.runs
            if run["deployment_id"] in wanted["deployment_id"]["any_"]
            and run["state_type"] in wanted["state"]["type"]["any_"]
        ]
        found.sort(
            key=lambda run: run["expected_start_time"], reverse=body["sort"].endswith("_DESC")
        )
        return found[: body["limit"]]


@contextmanager
def serving(api: Api) -> Iterator[int]:
    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
            time.sleep(api.delay_s)
            sent = json.dumps(api.answer(self.path, body)).encode()
            self.send_response(api.status)
            self.send_header("Content-Length", str(len(sent)))
            self.end_headers()
            self.wfile.write(sent)

        def log_message(self, *_: object) -> None:
            """Nothing on stderr."""

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield server.server_port
        server.shutdown()


def soon(seconds: float = 20.0) -> float:
    return time.monotonic() + seconds


EXPECTED = [
    Schedule(deployment="audit/nightly"),
    Schedule(
        deployment="check/hourly",
        last_run=LastRun(name="check-run", state="Failed", since=NOON - timedelta(hours=20)),
        next_start=NOON - timedelta(minutes=3),
    ),
    Schedule(
        deployment="ingest/often",
        last_run=LastRun(name="ingest-run", state="Completed", since=NOON),
        next_start=NOON + timedelta(minutes=1),
    ),
]


def test_a_schedule_that_runs_often_does_not_hide_the_others_and_few_requests_do() -> None:
    api = Api()
    with serving(api) as port:
        assert schedules_of(port, SERVED, deadline=soon()) == EXPECTED
        assert len(api.asked) <= 6
        assert schedules_of(port, ["sot/off"], deadline=soon()) == []


def test_a_server_that_is_slow_or_refuses_does_not_hold_up_the_status() -> None:
    api = Api()
    with serving(api) as port:
        api.delay_s = 0.4
        began = time.monotonic()
        assert schedules_of(port, SERVED, deadline=soon(0.6)) is None
        assert time.monotonic() - began < 5
        assert len(api.asked) <= 3
        api.delay_s, api.status = 0.0, 500
        assert schedules_of(port, SERVED, deadline=soon()) is None
    assert schedules_of(port, SERVED, deadline=soon()) is None


def test_the_words() -> None:
    state = ServerStatus(
        running=True, answers=True, database="", database_bytes=0, schedules=EXPECTED
    )
    assert up._schedule_lines(state, NOON) == [
        "  schedules audit/nightly: no run yet, the next run is not planned yet",
        "            check/hourly: last run Failed 20 h 00 m ago, next run late by 3 m 00 s",
        "            ingest/often: last run Completed 0.0 s ago, next run in 1 m 00 s",
    ]
    [off] = up._schedule_lines(
        ServerStatus(answers=True, running=True, database="", database_bytes=0, schedules=[]), NOON
    )
    assert "headrace up --schedules" in off
    [silent] = up._schedule_lines(
        ServerStatus(running=True, answers=True, database="", database_bytes=0), NOON
    )
    assert "not known" in silent


def test_a_server_without_a_command_is_not_called_unused() -> None:
    process = ProcessStatus(name="server", pid=1, since=NOON, log="/log")
    idle = ServerStatus(
        running=True, answers=True, process=process, database="", database_bytes=0, schedules=[]
    )
    assert "  commands  none of this machine is using it now" in up._lines(idle)
    busy = msgspec.structs.replace(idle, in_use=True)
    assert "  commands  some of this machine are using it" in up._lines(busy)
    assert msgspec.to_builtins(idle)["in_use"] is False
