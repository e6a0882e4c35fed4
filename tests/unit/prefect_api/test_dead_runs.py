"""Which runs are called crashed when the process that held their lease is gone."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from types import SimpleNamespace
from typing import Any
from uuid import UUID, uuid4

import httpx
import pytest
from prefect.client.schemas.objects import State, StateType
from prefect.exceptions import ObjectNotFound

from headrace.leases import Holder
from headrace.leases.model import Process
from headrace.prefect_api import dead_runs

NOW = datetime(2026, 1, 1, tzinfo=UTC)


def holder(run_id: str) -> Holder:
    return Holder(
        lease_id="x", run_id=run_id, process=Process(host="a", pid=1), since=NOW, expires=NOW,
        expires_boot_s=0.0, ttl_s=60.0,
    )  # fmt: skip


class Api:
    """What is asked of Prefect's client; an error in place of a run is raised."""

    def __init__(self) -> None:
        self.run: Any = None
        self.states: list[tuple[UUID, State[Any]]] = []

    def read_flow_run(self, _run_id: UUID) -> Any:
        if isinstance(self.run, Exception):
            raise self.run
        return self.run

    def set_flow_run_state(self, run_id: UUID, state: State[Any], *, force: bool) -> None:
        assert force
        self.states.append((run_id, state))


@pytest.fixture
def api(monkeypatch: pytest.MonkeyPatch) -> Api:
    api = Api()

    @contextmanager
    def client(**_options: Any) -> Iterator[Api]:
        yield api

    monkeypatch.setattr(dead_runs, "get_client", client)
    monkeypatch.setattr(dead_runs, "require_api", lambda: None)
    return api


def run(state: StateType = StateType.RUNNING, *, deployment: UUID | None = None) -> Any:
    return SimpleNamespace(name="able-owl", deployment_id=deployment, state=State(type=state))


@pytest.mark.parametrize("state", dead_runs.AT_WORK)
def test_a_command_s_run_that_is_said_to_be_at_work_is_called_crashed_once(
    api: Api, state: StateType
) -> None:
    api.run, run_id = run(state), uuid4()
    assert dead_runs.conclude_run_of(holder(str(run_id)))
    assert not dead_runs.conclude_run_of(holder(str(run_id)))
    [(concluded, crashed)] = api.states
    assert (concluded, crashed.type) == (run_id, StateType.CRASHED)
    assert str(crashed.message).startswith("The process that ran it is gone")


@pytest.mark.parametrize(
    "found",
    [
        run(StateType.COMPLETED),
        run(StateType.FAILED),
        # Its id may be that of another attempt, which lives.
        run(deployment=uuid4()),
        ObjectNotFound(KeyError("of another server")),
    ],
)
def test_other_runs_are_left_as_they_are(api: Api, found: Any) -> None:
    api.run = found
    assert not dead_runs.conclude_run_of(holder(str(uuid4())))
    assert api.states == []


def test_what_is_no_flow_run_is_not_asked_for(api: Api) -> None:
    api.run = AssertionError("it was asked for")
    assert not dead_runs.conclude_run_of(holder("(starting)"))


def test_an_api_that_does_not_answer_is_asked_again_next_time(api: Api) -> None:
    api.run, held = httpx.ReadTimeout("slow"), holder(str(uuid4()))
    assert not dead_runs.conclude_run_of(held)
    api.run = run()
    assert dead_runs.conclude_run_of(held)
