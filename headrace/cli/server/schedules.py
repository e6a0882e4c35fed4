"""Of the deployments that a schedule starts: how the last run went, and when the next one is due.

Asked of the server's API in a few requests for all of them, within a limit of time.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable
from datetime import datetime
from typing import Any

import msgspec

from headrace.cli.server.address import post

_PAGE = 200
#: Pages of runs looked at: a run that is started often does not hide one that is not, since those
#: that were found are left out of the next page.
_PAGES = 3
_BEGUN = (
    "PENDING",
    "RUNNING",
    "CANCELLING",
    "PAUSED",
    "COMPLETED",
    "FAILED",
    "CRASHED",
    "CANCELLED",
)

Ask = Callable[[str, dict[str, Any]], list[dict[str, Any]]]


class LastRun(msgspec.Struct, frozen=True, kw_only=True):
    """The run that was started last, by its schedule or by hand.

    Attributes:
        state: as Prefect names it.
        since: when it ended, or began if it has not ended.
    """

    name: str
    state: str
    since: datetime


class Schedule(msgspec.Struct, frozen=True, kw_only=True):
    """A deployment with a schedule that is on; `next_start` may be over, if the run is late."""

    deployment: str
    last_run: LastRun | None = None
    next_start: datetime | None = None


class _Silent(Exception):
    """The server does not answer as it should, or not in time."""


def schedules_of(
    port: int,
    served: Iterable[str],
    *,
    deadline: float,
    clock: Callable[[], float] = time.monotonic,
) -> list[Schedule] | None:
    """The deployments among `served` (`flow/name` of each) that a schedule starts.

    Args:
        port: of the server.
        deadline: a reading of `clock`; the server is asked no longer.

    Returns:
        None if the server does not say.
    """

    def ask(path: str, body: dict[str, Any]) -> list[dict[str, Any]]:
        left_s = deadline - clock()
        answer = post(port, f"/api/{path}/filter", body, timeout_s=left_s) if left_s > 0 else None
        if not isinstance(answer, list):
            raise _Silent
        return answer

    try:
        names = _switched_on(ask, set(served))
        begun = _first_of_each(ask, names, _BEGUN, "EXPECTED_START_TIME_DESC")
        due = _first_of_each(ask, names, ("SCHEDULED",), "EXPECTED_START_TIME_ASC")
        return [
            Schedule(
                deployment=names[one],
                last_run=_last(begun[one]) if one in begun else None,
                next_start=_moment(due[one]["expected_start_time"]) if one in due else None,
            )
            for one in sorted(names, key=lambda one: names[one])
        ]
    except (_Silent, KeyError, TypeError, ValueError):
        return None


def _switched_on(ask: Ask, served: set[str]) -> dict[str, str]:
    """Their ids, with `flow/name` of each."""
    short = sorted({name.partition("/")[2] for name in served})
    found = [
        each
        for each in ask("deployments", {"deployments": {"name": {"any_": short}}, "limit": _PAGE})
        if not each["paused"] and any(schedule["active"] for schedule in each["schedules"])
    ]
    if not found:
        return {}
    wanted = {"flows": {"id": {"any_": sorted({each["flow_id"] for each in found})}}}
    flows = {flow["id"]: flow["name"] for flow in ask("flows", wanted)}
    named = {each["id"]: f"{flows.get(each['flow_id'], '')}/{each['name']}" for each in found}
    return {one: name for one, name in named.items() if name in served}


def _first_of_each(
    ask: Ask, deployments: Iterable[str], states: Iterable[str], order: str
) -> dict[str, dict[str, Any]]:
    """Of each deployment the first run in this order, where it has one."""
    left, found = set(deployments), dict[str, dict[str, Any]]()
    for _ in range(_PAGES):
        if not left:
            break
        runs = ask(
            "flow_runs",
            {
                "flow_runs": {
                    "deployment_id": {"any_": sorted(left)},
                    "state": {"type": {"any_": list(states)}},
                },
                "sort": order,
                "limit": _PAGE,
            },
        )
        for run in runs:
            found.setdefault(run["deployment_id"], run)
        left -= found.keys()
        if len(runs) < _PAGE:
            break
    return found


def _last(run: dict[str, Any]) -> LastRun:
    since = run["end_time"] or run["start_time"] or run["expected_start_time"]
    return LastRun(name=run["name"], state=run["state_name"], since=_moment(since))


def _moment(text: str) -> datetime:
    return datetime.fromisoformat(text)
