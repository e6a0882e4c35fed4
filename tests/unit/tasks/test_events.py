"""Events: one scheme of names, the table in the docs, and alarms that watch for what is emitted."""

from __future__ import annotations

import ast
import pkgutil
import re
from collections.abc import Iterator
from importlib import import_module
from pathlib import Path
from typing import Any

import pytest
from prefect import Flow

import flows
from headrace.checks.report import Breach, Check
from headrace.cli.alarms.catalogue import ALARMS, FLOWS, OLDER_EVENTS
from headrace.coverage import IntervalSet
from headrace.looker.extract.report import ExtractSummary, TypeReceipt
from headrace.looker.validate.report import Broken, ValidateReport
from headrace.pull.report import ProductReceipt
from headrace.pull.request import PullRequest
from headrace.quota import BreakerChange, KeyChange, Phase, SlowdownChange
from headrace.run.report import Costs, QuotaUse, Status
from headrace.sot.reports import SotReport
from tasks import events

ROOT = Path(__file__).parents[3]
#: How code says that something happened, and the kind of thing that it happens to then.
_CALLS = {
    "headrace/pull": ({"_emit", "emit"}, "product"),
    "headrace/looker/extract": ({"listener"}, "looker"),
    "tasks/looker.py": ({"listener"}, "looker"),
}


@pytest.fixture
def emitted(monkeypatch: pytest.MonkeyPatch) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = []
    monkeypatch.setattr(events, "emit_event", lambda **event: found.append(event))
    return found


def _emit_all() -> None:
    """Call everything in `tasks.events`."""
    receipt = ProductReceipt("BTC-USD", Status.DONE, newest=7)
    events.emit_if_up_to_date(PullRequest(products=("BTC-USD",)), receipt)
    events.emit_gaps("BTC-USD", IntervalSet([(1, 2), (5, 6)]))
    events.emit_breaches([Breach(Check.STALE, "BTC-USD", 7_200, "1 h", "2 h old")])
    for phase in Phase:
        events.emit_breaker_change(BreakerChange("host", Phase.CLOSED, phase, 5, 1.0))
    for percent in (67, 100):
        events.emit_slowdown(SlowdownChange("host", percent, 1.0, 3, 10))
    bad = TypeReceipt("look", Status.PARTIAL, failures=("7",), missing=("1-2",), error="500")
    costs = Costs(1, 0, 0, 1.0, QuotaUse("looker", "none", None, None))
    summary = ExtractSummary(
        "run", Status.PARTIAL, 1, None, "/vault", "http://looker.test:80", costs, (bad,)
    )
    events.emit_if_incomplete(summary)
    broken = Broken("look", "7", "Unknown field", title="Margins")
    events.emit_if_broken(
        ValidateReport("run", Status.PARTIAL, None, "http://looker.test:80", costs, (broken,))
    )
    for usable, status in ((False, 401), (False, 429), (True, None)):
        events.emit_key_change(KeyChange("host", "key 1", usable, status, 1.0))
    for action in ("write", "migrate", "anchor"):
        report = SotReport(
            "run", action, Status.PARTIAL, "/log", "", 1.0,
            details={"repairs": ["cut off"]}, problems=("cut off", "broken", "other"),
            damages=("broken",),
        )  # fmt: skip
        events.emit_log_problems(report)


def _names_in_code() -> Iterator[str]:
    for place, (calls, kind) in _CALLS.items():
        path = ROOT / place
        for file in path.rglob("*.py") if path.is_dir() else [path]:
            for node in ast.walk(ast.parse(file.read_text())):
                if not isinstance(node, ast.Call) or not node.args:
                    continue
                called = getattr(node.func, "attr", getattr(node.func, "id", ""))
                name = node.args[0]
                if called in calls and isinstance(name, ast.Constant) and name.value:
                    yield f"headrace.{kind}.{name.value}"


def _documented() -> dict[str, str]:
    """Event and resource of each line of the table."""
    lines = (ROOT / "docs" / "alarms.md").read_text().splitlines()
    rows = [line.split("|")[1:3] for line in lines if line.startswith("| `headrace.")]
    return {event.strip(" `"): resource.strip(" `") for event, resource in rows}


def test_an_event_and_its_resource_are_named_by_one_scheme(emitted: list[dict[str, Any]]) -> None:
    _emit_all()
    documented = _documented()
    for event in emitted:
        _, kind, happened = event["event"].split(".")
        assert happened == happened.lower()
        name = event["resource"]["prefect.resource.name"]
        assert event["resource"]["prefect.resource.id"] == f"headrace.{kind}.{name}"
        assert documented[event["event"]].startswith(f"headrace.{kind}.")
    of_logs = {e["resource"]["prefect.resource.name"] for e in emitted if ".log." in e["event"]}
    assert of_logs == {"/log"}


def test_the_table_in_the_docs_has_every_event(emitted: list[dict[str, Any]]) -> None:
    _emit_all()
    in_code = {event["event"] for event in emitted} | set(_names_in_code())
    assert (
        in_code - {f"headrace.product.{name}" for name in events.NO_EVENTS} == _documented().keys()
    )


def test_the_table_in_the_docs_names_what_each_event_carries(
    emitted: list[dict[str, Any]],
) -> None:
    _emit_all()
    texts: dict[str, str] = {}
    before = ""
    for line in (ROOT / "docs" / "alarms.md").read_text().splitlines():
        if line.startswith("| `headrace."):
            event, *_, payload = line.split("|")[1:-1]
            before = f"{before} {payload}" if "the same" in payload else payload
            texts[event.strip(" `")] = before
    for event in emitted:
        known = {*re.findall(r"`(\w+)`", texts[event["event"]]), "product"}
        assert event["payload"].keys() <= known, event["event"]


def test_what_is_no_event_is_not_emitted(emitted: list[dict[str, Any]]) -> None:
    for name in events.NO_EVENTS:
        events.emit_and_log(name, {"product": "BTC-USD"})
    assert emitted == []


def test_what_is_missing_and_what_never_was_have_other_names() -> None:
    names = [name.rpartition(".")[2] for name in _documented()]
    assert len(set(names)) == len(names)
    assert {"hole-proven", "gap-found", "incomplete"} <= set(names)


def test_alarms_watch_for_events_that_are_emitted(emitted: list[dict[str, Any]]) -> None:
    _emit_all()
    ours = {event["event"] for event in emitted}
    # Of Prefect's own.
    runs = ("Failed", "Crashed", "Partial", "Late", "Pending", "Running", "Cancelled")
    states = {f"prefect.flow-run.{name}" for name in runs}
    states |= {"prefect.deployment.ready", "prefect.deployment.not-ready"}
    for alarm in ALARMS:
        assert alarm.expect
        assert alarm.expect | alarm.after <= (states if alarm.of_our_flows else ours), alarm.key
    assert not OLDER_EVENTS & ours


def test_alarms_on_runs_know_every_flow() -> None:
    found = set()
    for module in pkgutil.iter_modules(flows.__path__, "flows."):
        members = vars(import_module(module.name)).values()
        found |= {member.name for member in members if isinstance(member, Flow)}
    assert sorted(found) == list(FLOWS)


def test_problems_of_a_log_have_events_by_kind(emitted: list[dict[str, Any]]) -> None:
    _emit_all()
    said = [
        (event["event"].rpartition(".")[2], event["payload"]["action"], event["payload"]["problem"])
        for event in emitted
        if ".log." in event["event"]
    ]
    assert sorted(said) == [
        ("chain-broken", "anchor", "broken"),
        ("chain-broken", "migrate", "broken"),
        ("chain-broken", "write", "broken"),
        ("logs-differ", "migrate", "other"),
        ("not-anchored", "anchor", "other"),
        ("record-refused", "write", "other"),
        ("tail-cut", "anchor", "cut off"),
        ("tail-cut", "migrate", "cut off"),
        ("tail-cut", "write", "cut off"),
    ]
