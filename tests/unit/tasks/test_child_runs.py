"""Child runs as their parent sees them: through a Prefect API that is made up here."""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path
from types import SimpleNamespace
from typing import Any
from uuid import UUID, uuid4

import httpx
import pytest
from prefect.client.schemas.objects import DeploymentStatus
from prefect.states import Cancelled, Completed, Crashed, Failed, Running

from headrace.leases import LeaseStoreUnavailable, SqliteLeases
from headrace.leases.model import Process
from headrace.leases.this_machine import ThisMachine
from headrace.pull.report import Part, PartEnd
from headrace.pull.spread import PartRequest, lease_of_part
from headrace.stopping import StopEvent
from tasks import child_runs
from tasks.child_runs import Children, NothingRunsParts, part_deployment


class Api:
    """Flow runs and artifacts of one deployment."""

    def __init__(self) -> None:
        self.runs: dict[UUID, Any] = {}
        self.reports: dict[UUID, str] = {}
        self.keys: list[str] = []
        self.cancelled: list[UUID] = []
        self.breaks_at: set[UUID] = set()
        self.deployments: list[Any] = []

    def start(self, _deployment: object, *, idempotency_key: str, **_: Any) -> Any:
        self.keys.append(idempotency_key)
        run = SimpleNamespace(id=uuid4(), name="run", state=Running())
        self.runs[run.id] = run
        return run

    def latest(self) -> UUID:
        return list(self.runs)[-1]

    def end(self, run_id: UUID, state: Any, report: dict[str, Any] | None = None) -> None:
        self.runs[run_id].state = state
        if report is not None:
            self.reports[run_id] = json.dumps(report)

    def read_flow_runs(self, *, flow_run_filter: Any, limit: int) -> list[Any]:
        return [self.runs[run_id] for run_id in flow_run_filter.id.any_]

    def read_artifacts(self, *, artifact_filter: Any, sort: object) -> list[Any]:
        [run_id] = artifact_filter.flow_run_id.any_
        if run_id in self.breaks_at:
            self.breaks_at.remove(run_id)
            raise httpx.ConnectError("the server restarts")
        return [SimpleNamespace(data=self.reports[run_id])] if run_id in self.reports else []

    def set_flow_run_state(self, run_id: UUID, state: Any, force: bool = False) -> None:
        if state.is_cancelling():
            self.cancelled.append(run_id)
        else:
            self.runs[run_id].state = state

    def read_deployments(self, *, flow_filter: Any) -> list[Any]:
        return self.deployments

    def __enter__(self) -> Api:
        return self

    def __exit__(self, *_: object) -> None:
        pass


@pytest.fixture
def api(monkeypatch: pytest.MonkeyPatch) -> Api:
    api = Api()
    monkeypatch.setattr(child_runs, "get_client", lambda **_: api)
    monkeypatch.setattr(child_runs, "run_deployment", api.start)
    monkeypatch.setattr(child_runs, "_POLL_S", 0.001)
    monkeypatch.setattr(child_runs, "_LEASES_S", 0.0)
    return api


@pytest.fixture
def leases(tmp_path: Path) -> SqliteLeases:
    return SqliteLeases(tmp_path)


@pytest.fixture
def stop() -> StopEvent:
    return StopEvent()


def of(
    leases: SqliteLeases,
    stop: StopEvent,
    parts: int = 1,
    clock: Callable[[], float] = time.monotonic,
) -> Children:
    asked = [
        (Part(n, (f"P{n}-USD",)), PartRequest(products=(f"P{n}-USD",), spread_run="r", number=n))
        for n in range(1, parts + 1)
    ]
    deployment: Any = SimpleNamespace(id=uuid4(), name="spread")
    return Children(deployment, asked, leases=leases, stop=stop, clock=clock)


def next_end(ends: Iterator[PartEnd | None]) -> PartEnd:
    return next(end for end in ends if end is not None)


REPORT = {"status": "done", "products": []}


def test_a_report_is_taken_whatever_the_state(
    api: Api, leases: SqliteLeases, stop: StopEvent
) -> None:
    ends = of(leases, stop, 2).ends()
    assert next(ends) is None
    first, second = api.runs
    api.end(first, Completed(), REPORT)
    api.end(second, Failed(name="Partial"), {**REPORT, "status": "partial"})
    found = [next_end(ends), next_end(ends)]
    assert [(end.starts, end.error, end.report["status"]) for end in found] == [
        (1, "", "done"),
        (1, "", "partial"),
    ]
    assert [end for end in ends if end] == []
    assert api.cancelled == []


def test_what_died_is_started_again_once(api: Api, leases: SqliteLeases, stop: StopEvent) -> None:
    ends = of(leases, stop).ends()
    next(ends)
    api.end(api.latest(), Crashed(message="exit code -9"))
    next(ends), next(ends)
    assert len(api.runs) == 2
    assert len(set(api.keys)) == 2
    api.end(api.latest(), Failed(message="no such lake"))
    end = next_end(ends)
    assert (end.starts, end.error) == (2, "it died 2 times, at last: no such lake")
    assert len(api.runs) == 2


class Gone(ThisMachine):
    """This machine, as seen by a process that had our pid and is gone."""

    def me(self) -> Process:
        me = super().me()
        assert me.start_ticks is not None
        return me.model_copy(update={"start_ticks": me.start_ticks - 1})


def test_a_lease_that_is_over_says_what_prefect_does_not_know(
    api: Api, leases: SqliteLeases, stop: StopEvent, tmp_path: Path
) -> None:
    """And the lease of an earlier start says nothing of a later one."""
    ends = of(leases, stop).ends()
    next(ends)
    first = api.latest()
    SqliteLeases(tmp_path, machine=Gone()).acquire(
        lease_of_part("r", 1), run_id=str(first), ttl_s=60
    )
    for _ in range(4):
        next(ends)
    assert api.runs[first].state.is_crashed()
    second = api.latest()
    assert second != first
    assert api.runs[second].state.is_running()
    api.end(second, Completed(), REPORT)
    assert next_end(ends).starts == 2


def test_a_run_that_never_takes_its_lease_is_given_up(
    api: Api, leases: SqliteLeases, stop: StopEvent, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its host was gone before it began; only leases that machines share can say that."""
    now_s = 0.0
    seen = of(leases, stop, clock=lambda: now_s).ends()
    for now_s in (1.0, 2.0, 1000.0):  # noqa: B007 - the clock
        next(seen)
    assert len(api.runs) == 1
    monkeypatch.setattr(leases, "one_machine", False)
    for now_s in (1001.0, 1100.0):  # noqa: B007
        next(seen)
    assert len(api.runs) == 1
    now_s = 1200.0
    next(seen), next(seen)
    assert len(api.runs) == 2
    seen.close()


def test_a_look_that_breaks_off_loses_nothing(
    api: Api, leases: SqliteLeases, stop: StopEvent, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The API, once a first end is known; and the leases, before anything is."""

    def unreachable(*_: str) -> Any:
        raise LeaseStoreUnavailable("leases", "away")

    ends = of(leases, stop, 2).ends()
    next(ends)
    first, second = api.runs
    api.end(first, Completed(), REPORT)
    api.end(second, Completed(), REPORT)
    api.breaks_at = {second}
    with monkeypatch.context() as patch:
        patch.setattr(api.runs[first], "state", Running())
        patch.setattr(leases, "states", unreachable)
        next(ends)
    found = [next_end(ends), next_end(ends)]
    assert [end.part.number for end in found] == [1, 2]
    assert [end.error for end in found] == ["", ""]


def test_a_stop_cancels_all_that_is_under_way(
    api: Api, leases: SqliteLeases, stop: StopEvent
) -> None:
    ends = of(leases, stop, 3).ends()
    next(ends)
    first, second, third = api.runs
    api.end(first, Cancelled(message="in the UI"))
    assert next_end(ends).error == "in the UI"
    stop.set()
    rest = [end for end in ends if end is not None]
    assert [end.error for end in rest] == ["it is cancelled"] * 2
    assert api.cancelled == [second, third]


def test_who_leaves_early_cancels_too(api: Api, leases: SqliteLeases, stop: StopEvent) -> None:
    with closing(of(leases, stop, 2).ends()) as ends:
        next(ends)
    assert api.cancelled == list(api.runs)


@pytest.mark.parametrize(
    ("deployments", "said"),
    [
        ([], "no deployment of the flow pull-part"),
        ([("spread", DeploymentStatus.NOT_READY, False)], "nothing that runs pull-part/spread"),
        ([("spread", DeploymentStatus.READY, True)], "nothing that runs pull-part/spread"),
    ],
)
def test_nothing_runs_parts(api: Api, deployments: list[Any], said: str) -> None:
    api.deployments = [
        SimpleNamespace(name=name, status=status, paused=paused)
        for name, status, paused in deployments
    ]
    with pytest.raises(NothingRunsParts, match=said):
        part_deployment()


def test_the_deployment_that_is_ready_is_taken(api: Api) -> None:
    ready = SimpleNamespace(name="b", status=DeploymentStatus.READY, paused=False)
    api.deployments = [
        SimpleNamespace(name="a", status=DeploymentStatus.NOT_READY, paused=False),
        ready,
    ]
    assert part_deployment() is ready
