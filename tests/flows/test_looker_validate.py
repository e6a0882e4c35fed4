"""The flow `looker-validate`: broken content is its state, its table and one event."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator
from typing import Any

import pytest
from prefect.client.orchestration import get_client
from prefect.client.schemas.filters import ArtifactFilter, ArtifactFilterFlowRunId
from support.looker import SECRET
from support.pulls import Watcher

from headrace.cli.exit_codes import Exit
from headrace.errors import ConfigurationError
from headrace.looker.validate.report import ValidateReport
from headrace.run.report import Status
from headrace.sim.looker import SimulatedLooker
from tasks import events
from tasks.kernel import observing

pytestmark = pytest.mark.flows

_COUNTS = {"look": 3, "dashboard": 4, "merge_query": 1}


@pytest.fixture
def sim(monkeypatch: pytest.MonkeyPatch) -> Iterator[SimulatedLooker]:
    with SimulatedLooker(counts=_COUNTS) as running:
        monkeypatch.setenv("LOOKERSDK_BASE_URL", running.url)
        monkeypatch.setenv("LOOKERSDK_CLIENT_ID", "headrace")
        monkeypatch.setenv("LOOKERSDK_CLIENT_SECRET", SECRET)
        yield running


@pytest.fixture
def emitted(monkeypatch: pytest.MonkeyPatch) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = []
    monkeypatch.setattr(events, "emit_event", lambda **event: found.append(event))
    return found


def validate(**parameters: Any) -> ValidateReport:
    from flows.looker_validate import looker_validate

    watcher = Watcher()
    with observing(watcher):
        state = looker_validate(rate="none", workers=2, **parameters, return_state=True)
    if watcher.summary is None:
        state.result(raise_on_failure=True)
    assert isinstance(watcher.summary, ValidateReport)
    return watcher.summary


def test_broken_content_is_a_partial_run_a_table_and_one_event(
    sim: SimulatedLooker, emitted: list[dict[str, Any]]
) -> None:
    sound = validate(run_queries=True)
    assert (sound.status, sound.broken, sound.unsure) == (Status.DONE, (), ())
    assert sound.queries > 4
    assert [event for event in emitted if "broken" in event["event"]] == []

    sim.library.unknown_fields = {"users.count"}
    sim.library.failing_fields = {"orders.count"}
    report = validate(run_queries=True)
    assert report.status is Status.PARTIAL
    assert {each.found_by for each in report.broken} == {"validation", "query"}
    (event,) = [event for event in emitted if event["event"].endswith("content-broken")]
    assert event["payload"]["errors"] == len(report.broken)
    assert event["payload"]["types"] == dict(report.counts_by_type)
    assert SECRET not in json.dumps(report.as_json())
    with get_client(sync_client=True) as client:
        of_run = ArtifactFilter(flow_run_id=ArtifactFilterFlowRunId(any_=[report.run]))
        artifacts = {each.key: each.data for each in client.read_artifacts(artifact_filter=of_run)}
    rows = json.loads(artifacts["headrace-looker-validate"])
    assert {row["type"] for row in rows} == {each.type for each in report.broken}

    sim.add_fault("error,status=403,type=content_validation")
    refused = validate()
    assert refused.status is Status.FAILED
    assert "403" in refused.error


def test_the_command_says_what_is_broken_and_ends_with_4(
    sim: SimulatedLooker, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    from headrace.cli.main import main

    def command(*options: str) -> tuple[int, str]:
        monkeypatch.setattr(sys, "argv", ["headrace", "looker", "validate", *options])
        with pytest.raises(SystemExit) as ended:
            main()
        return int(ended.value.code or 0), capfd.readouterr().out

    monkeypatch.setattr("headrace.cli.running.bounded_exit", lambda code, drain_s: sys.exit(code))
    code, out = command("--rate", "none", "--json")
    assert (code, json.loads(out)["status"]) == (Exit.DONE, "done")

    sim.library.unknown_fields = {"users.count"}
    code, out = command("--rate", "none")
    assert code == Exit.PARTIAL
    assert "users.count" in out


def test_parameters_that_contradict_each_other_are_named() -> None:
    with pytest.raises(ConfigurationError, match="recursive needs folder_ids"):
        validate(recursive=True)
    with pytest.raises(ConfigurationError, match="leave one of them"):
        validate(run_queries=True, folder_ids=[], projects=["x"])
