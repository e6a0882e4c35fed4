"""Child runs of a spread run: started through a deployment, watched until each has ended.

A child that died, as Prefect says or as its lease does, is started again once. A child ends for
itself: a parent that is gone leaves it to its work.
"""

from __future__ import annotations

import json
import logging
import time
from collections.abc import Callable, Generator, Sequence
from dataclasses import dataclass
from typing import Any
from uuid import UUID, uuid4

from prefect.artifacts import create_markdown_artifact
from prefect.client.orchestration import SyncPrefectClient, get_client
from prefect.client.schemas import FlowRun, State
from prefect.client.schemas.filters import (
    ArtifactFilter,
    ArtifactFilterFlowRunId,
    ArtifactFilterKey,
    FlowFilter,
    FlowFilterName,
    FlowRunFilter,
    FlowRunFilterId,
)
from prefect.client.schemas.objects import DeploymentStatus, StateType
from prefect.client.schemas.responses import DeploymentResponse
from prefect.client.schemas.sorting import ArtifactSort
from prefect.deployments import run_deployment
from prefect.states import Cancelling, Crashed

from headrace.errors import ConfigurationError
from headrace.leases import LeaseState, LeaseStatus, LeaseStore, LeaseStoreUnavailable
from headrace.prefect_api.reachable import API_ERRORS
from headrace.pull.report import Part, PartEnd
from headrace.pull.spread import PartRequest, lease_of_part
from headrace.run.report import Report
from headrace.stopping import StopEvent

log = logging.getLogger(__name__)

#: The flow of a part; its deployment is in prefect.yaml.
FLOW = "pull-part"
#: How often a part is started at most.
STARTS = 2
_POLL_S, _LEASES_S, _NOT_TAKEN_S = 1.0, 5.0, 60.0
#: How long a run that is said to be under way may be without its lease: it loads what it needs, or
#: has worked and is about to say so. A host that is gone does not say that its runs are.
_NO_LEASE_S = 180.0
_REPORT = "headrace-part"


class NothingRunsParts(ConfigurationError):
    """A run is to be spread, and nothing would run its parts."""

    def __init__(self, why: str) -> None:
        super().__init__(
            f"the run cannot be spread: {why}",
            hint="`headrace up` serves it on this machine; a server with work pools has it by "
            "`prefect deploy --all` and runs it by `prefect worker start`; without --spread the "
            "run works here",
        )


def part_deployment() -> DeploymentResponse:
    """The deployment that runs parts.

    Raises:
        NothingRunsParts: there is none, or nothing has asked for its runs in the last minute.
    """
    flow = FlowFilter(name=FlowFilterName(any_=[FLOW]))
    try:
        with get_client(sync_client=True) as client:
            found = client.read_deployments(flow_filter=flow)
    except API_ERRORS as error:
        raise NothingRunsParts(f"the Prefect API does not answer ({error})") from error
    if not found:
        raise NothingRunsParts(f"the Prefect API has no deployment of the flow {FLOW}")
    ready = [each for each in found if each.status is DeploymentStatus.READY and not each.paused]
    if not ready:
        names = ", ".join(f"{FLOW}/{each.name}" for each in found)
        raise NothingRunsParts(f"nothing that runs {names} has asked for work in the last minute")
    return ready[0]


def leave_report(report: Report) -> None:
    """Leave what a part did to the run whose part it is."""
    try:
        create_markdown_artifact(
            markdown=json.dumps(report.as_json()),
            key=_REPORT,
            description="What this part did, for the run that it is a part of",
        )
    except API_ERRORS as error:
        log.warning("the spread run will not know what this part did: %s", error)


@dataclass(slots=True)
class _Child:
    part: Part
    request: PartRequest
    run: FlowRun | None = None
    starts: int = 0
    begun_s: float = 0.0
    unseen_s: float | None = None
    is_waited_for: bool = False


class Children:
    """The child runs of some parts.

    Args:
        deployment: what runs them.
        parts: each with what its child is asked.
        leases: where a living child holds a lease.
        stop: has all of them cancelled; they are not waited for.
    """

    def __init__(
        self,
        deployment: DeploymentResponse,
        parts: Sequence[tuple[Part, PartRequest]],
        *,
        leases: LeaseStore,
        stop: StopEvent,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._deployment = deployment
        self._open = [_Child(part, request) for part, request in parts]
        self._leases = leases
        self._stop = stop
        self._clock = clock
        self._looked_s = 0.0
        self._is_away = False
        self._key = uuid4().hex
        #: What ended, until it is yielded: a look that breaks off must lose none.
        self._ended: list[PartEnd] = []

    def ends(self) -> Generator[PartEnd | None, None, None]:
        """Yield each part's end as it comes, and None every second in between.

        Who closes it before all have ended has the others cancelled, and does not wait for them.
        """
        try:
            while self._open and not self._stop.is_set():
                self._try(self._look)
                yield from self._drained()
                yield None
                self._stop.wait(_POLL_S)
        finally:
            if self._open:
                self._try(self._cancel)
        # A run has to end seconds after a stop; its children note for themselves what they kept.
        for child in list(self._open):
            self._end(child, "it is cancelled")
        yield from self._drained()

    def _drained(self) -> list[PartEnd]:
        ended, self._ended = self._ended, []
        return ended

    def _try(self, ask: Callable[[SyncPrefectClient], None]) -> None:
        """Ask the API and the leases; what is away is asked again at the next look."""
        try:
            with get_client(sync_client=True) as client:
                ask(client)
        except (*API_ERRORS, LeaseStoreUnavailable) as error:
            if not self._is_away:
                log.warning("the child runs are out of sight, they go on: %s", error)
            self._is_away = True
        else:
            self._is_away = False

    def _look(self, client: SyncPrefectClient) -> None:
        for child in self._open:
            if child.run is None:
                self._start(child)
        ids = [child.run.id for child in self._open if child.run]
        found = {
            run.id: run
            for run in client.read_flow_runs(
                flow_run_filter=FlowRunFilter(id=FlowRunFilterId(any_=ids)), limit=len(ids) or 1
            )
        }
        dead = self._dead(found)
        for child in list(self._open):
            run = found.get(child.run.id) if child.run else None
            if run is None or run.state is None:
                continue
            if run.state.is_final():
                self._take(client, child, run.state)
            elif child.part.number in dead:
                reason = "its process is gone: it does not hold its lease"
                client.set_flow_run_state(run.id, Crashed(message=reason), force=True)
                self._died(child, reason)
            else:
                self._watch_start(child, run.state)

    def _start(self, child: _Child) -> None:
        started: Any = run_deployment(
            self._deployment.id,
            parameters=child.request.as_form(),
            flow_run_name=f"{child.part} of {child.request.spread_run[:8]}",
            timeout=0,
            # Where the answer is lost, the next look finds the run that was made.
            idempotency_key=f"{self._key}-{child.part.number}-{child.starts}",
        )
        child.run, child.begun_s, child.unseen_s = started, self._clock(), None
        child.starts += 1
        log.info("%s is %s", child.part, started.name, extra={"event": "part-started"})

    def _dead(self, runs: dict[UUID, FlowRun]) -> set[int]:
        """Numbers of parts whose run is said to go on, and whose lease is over or never came."""
        if self._clock() - self._looked_s < _LEASES_S:
            return set()
        self._looked_s = self._clock()
        running = [
            child
            for child in self._open
            if child.run
            and (run := runs.get(child.run.id))
            and run.state
            and run.state.type in (StateType.PENDING, StateType.RUNNING, StateType.CANCELLING)
        ]
        names = [lease_of_part(each.request.spread_run, each.part.number) for each in running]
        states = self._leases.states(*names) if names else ()
        return {
            child.part.number
            for child, state in zip(running, states, strict=True)
            if self._is_dead(child, state)
        }

    def _is_dead(self, child: _Child, state: LeaseState) -> bool:
        assert child.run is not None
        # An earlier start's lease says nothing of this one.
        if state.holder and state.holder.run_id == str(child.run.id):
            child.unseen_s = None
            return state.status is not LeaseStatus.HELD
        # In a file of this machine, that of a run elsewhere cannot be seen.
        if self._leases.one_machine:
            return False
        if child.unseen_s is None:
            child.unseen_s = self._clock()
        return self._clock() - child.unseen_s > _NO_LEASE_S

    def _take(self, client: SyncPrefectClient, child: _Child, state: State[Any]) -> None:
        """Take what a run that ended has left."""
        assert child.run is not None
        report = _report_of(client, child.run.id)
        if report is not None:
            self._end(child, "", report)
        elif state.is_cancelled():
            self._end(child, state.message or "it was cancelled")
        else:
            self._died(child, state.message or state.name or "it left no report")

    def _died(self, child: _Child, reason: str) -> None:
        again = child.starts < STARTS
        log.warning("%s died%s: %s", child.part, ", it is started again" if again else "", reason)
        if again:
            child.run = None
        else:
            self._end(child, f"it died {child.starts} times, at last: {reason}")

    def _end(self, child: _Child, error: str, report: Any = None) -> None:
        self._open.remove(child)
        run_id = str(child.run.id) if child.run else ""
        self._ended.append(
            PartEnd(child.part, run_id, child.starts, error=error, report=report or {})
        )

    def _watch_start(self, child: _Child, state: State[Any]) -> None:
        """Say once of a part that nothing has taken it for a minute."""
        waits = state.type in (StateType.SCHEDULED, StateType.PENDING)
        if waits and not child.is_waited_for and self._clock() - child.begun_s > _NOT_TAKEN_S:
            child.is_waited_for = True
            log.warning(
                "nothing has taken %s for %.0f s: are there free workers of %s/%s?",
                child.part,
                _NOT_TAKEN_S,
                FLOW,
                self._deployment.name,
            )

    def _cancel(self, client: SyncPrefectClient) -> None:
        for child in self._open:
            if child.run is not None:
                client.set_flow_run_state(child.run.id, Cancelling())


def _report_of(client: SyncPrefectClient, run_id: UUID) -> Any:
    """What a child has left; None if nothing."""
    found = client.read_artifacts(
        artifact_filter=ArtifactFilter(
            key=ArtifactFilterKey(any_=[_REPORT]),
            flow_run_id=ArtifactFilterFlowRunId(any_=[run_id]),
        ),
        sort=ArtifactSort.CREATED_DESC,
    )
    return json.loads(str(found[0].data)) if found else None
