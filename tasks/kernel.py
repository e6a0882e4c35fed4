"""One run of a pipeline: what every run has, whatever it does.

A pipeline declares a request (`headrace.run.parameters`), a DAG (a flow made by `tasks.pipeline`)
and a report (`headrace.run.report`). This module has the rest: settings, logs and the stop of a
run, the registry in which its tasks find it, its metrics, its progress bar in the UI, and its end:
artifacts, a line in the log, the observers of this process, the state that Prefect shows.

Clients, gates and stores are no task parameters: Prefect would hash and record them. Tasks take the
run's id instead and look up the rest here; the pools are threads, so that is one dictionary.
"""

from __future__ import annotations

import json
import logging
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from typing import Any, ClassVar, Generic, Protocol, TypeVar
from uuid import UUID

from prefect.artifacts import (
    create_markdown_artifact,
    create_progress_artifact,
    create_table_artifact,
    update_progress_artifact,
)
from prefect.client.orchestration import get_client
from prefect.client.schemas import State
from prefect.context import FlowRunContext
from prefect.logging import get_run_logger
from prefect.runtime import flow_run
from prefect.states import Cancelled, Completed, Failed

from headrace.amounts import duration
from headrace.errors import HeadraceError
from headrace.leases import Lease, LeaseLost, hold, open_leases, reporting_gone
from headrace.metrics import publishing
from headrace.metrics.meter import Meter
from headrace.metrics.publisher import PATIENCE_S
from headrace.metrics.requests import ClientStats, RequestMetrics
from headrace.prefect_api.dead_runs import conclude_run_of
from headrace.prefect_api.reachable import API_ERRORS, events_refusal, require_api
from headrace.quota import Gate, KeyChange, KeyPool
from headrace.run.parameters import Parameters
from headrace.run.progress import Progress
from headrace.run.report import Costs, QuotaUse, Report, Status, log_end
from headrace.settings import Settings, load_settings
from headrace.signals import stop_on_signals
from headrace.stopping import StopEvent
from tasks.events import emit_breaker_change, emit_key_change, emit_slowdown
from tasks.logs import logs_of_run

log = logging.getLogger(__name__)

RequestType = TypeVar("RequestType", bound=Parameters)
Kind = TypeVar("Kind", bound="PipelineRun[Any]")
Reported = TypeVar("Reported", bound=Report)

#: How long the last metrics may take once the run was asked to end.
_INTERRUPTED_PATIENCE_S = 1.0


@dataclass(kw_only=True)
class PipelineRun(Generic[RequestType]):
    """One run. Each pipeline adds what its tasks share.

    Attributes:
        id: of the flow run.
        request: what it is asked.
        stop: set when the run is to end; what waits looks at it.
        progress: how far it is.
        on_end: called with the report.
        greeting: what a terminal says first.
        say: shows a line meanwhile; a terminal that watches the run sets it.
        kept: what is kept when the run is asked to end.
    """

    kept: ClassVar[str] = "what is complete"

    id: str
    request: RequestType
    settings: Settings
    stop: StopEvent
    progress: Progress
    on_end: list[Callable[[Any], None]] = field(default_factory=list)
    greeting: str = ""
    say: Callable[[str], None] = lambda _line: None

    def status_words(self) -> list[str]:
        """What a terminal says below the bars."""
        return []

    @property
    def elapsed_s(self) -> float:
        """Seconds since the start."""
        return max(self.progress.clock() - self.progress.started, 0.001)


class Client(Protocol):
    """What a run asks of a client that sends requests."""

    @property
    def stats(self) -> ClientStats:
        """Requests so far."""


@dataclass(kw_only=True)
class QuotaRun(PipelineRun[RequestType]):
    """A run that sends requests under a quota.

    Attributes:
        client: sends them.
        gate: gives their permits; of one quota, or of several keys.
        rates: what the quota allows, in words.
        per_s: the mean rate that it sustains, in requests a second; None for no limit.
    """

    client: Client
    gate: Gate | KeyPool
    rates: str
    per_s: float | None

    def costs(self, *, logins: int | None = None) -> Costs:
        """What the run's requests have cost so far, and how much of the quota they used."""
        stats, elapsed_s = self.client.stats, self.elapsed_s
        share = round(stats.requests / (elapsed_s * self.per_s), 4) if self.per_s else None
        quota = QuotaUse(self.gate.config.name, self.rates, share, self.per_s)
        return Costs(stats.requests, stats.throttled, stats.retries, elapsed_s, quota, logins)

    def status_words(self) -> list[str]:
        """Requests a second against the quota, time left, and what the run waits for."""
        gate, sent = self.gate, self.client.stats.requests
        # What the keys allow that are not set aside.
        rates, per_s = self.rates, self.per_s
        if isinstance(gate, KeyPool):
            rates, per_s = gate.usable_rates, gate.usable_per_s
        parts = [f"{sent / self.elapsed_s:.1f} requests/s of {rates}"]
        waits = gate.waiting_for()
        # Nothing is known of how long an outage lasts.
        eta_s = None if waits == "breaker" else self.progress.eta_s(per_s)
        if eta_s is not None:
            parts.append(f"{duration(eta_s)} left")
        if waits:
            parts.append(f"waiting for the {waits}")
        return parts

    def key_changed(self, change: KeyChange) -> None:
        """Say which key was set aside, rests, or is used again."""
        if change.usable:
            self.say(f"key {change.label} is used again")
        elif change.status == 429:
            self.say(f"429: key {change.label} rests for {change.pause_s:.0f} s")
        else:
            self.say(
                f"key {change.label} was refused (status {change.status}): it is tried again in "
                f"{change.pause_s:.0f} s, the other keys go on"
            )
        emit_key_change(change)

    def publish_requests(self, meter: Meter, kind: str) -> RequestMetrics:
        """Feed the meter from the client and the breaker until the end of the run.

        Args:
            kind: of the run, where it is none of Prefect's flows.
        """
        requests = RequestMetrics(
            meter,
            source=self.gate.config.name,
            flow=flow_run.flow_name or kind,
            stats=self.client.stats,
            per_s=self.per_s,
            clock=self.progress.clock,
        )
        self.gate.on_breaker_change(requests.breaker_changed)
        return requests


class Opening:
    """A run that is being opened: what every run has, and the stack that closes the rest.

    Attributes:
        run_id: id of the flow run.
        settings: of this process.
        stop: set by SIGINT, SIGTERM and a cancellation in the UI.
        resources: closed at the end of the run, the last opened first.
    """

    def __init__(self, resources: ExitStack) -> None:
        self.run_id = str(flow_run.id)
        self.settings = load_settings()
        self.resources = resources
        resources.enter_context(logs_of_run(self.run_id, self.settings))
        self.stop = resources.enter_context(stop_on_signals())
        resources.enter_context(reporting_gone(conclude_run_of))
        if refusal := events_refusal():
            log.warning(
                "the Prefect server takes no events (%s): it will show no task runs of this run, "
                "and alarms stay silent; data, summary and exit code are not concerned",
                refusal,
                extra={"event": "no-events"},
            )

    def run(self, request: RequestType, progress: Progress) -> PipelineRun[RequestType]:
        """A run whose tasks share no more than what every run has."""
        return PipelineRun(
            id=self.run_id,
            request=request,
            settings=self.settings,
            stop=self.stop,
            progress=progress,
        )

    def hold(self, name: str, on_lost: Callable[[LeaseLost], None] | None = None) -> Lease:
        """Take the lease on `name`, and hold it until the end of the run; see `hold`.

        Raises:
            LeaseHeld: another run holds it.
        """
        store, ttl_s = open_leases(self.settings.lease_location), self.settings.lease_ttl_s
        held = hold(store, name, run_id=self.run_id, ttl_s=ttl_s, stop=self.stop, on_lost=on_lost)
        return self.resources.enter_context(held)

    def keep_open(self, gate: Gate | KeyPool) -> None:
        """Show what becomes of a gate as events, and close it at the end of the run."""
        self.resources.callback(gate.close)
        gate.on_breaker_change(emit_breaker_change)
        gate.on_slowdown(emit_slowdown)

    def meter(self) -> Meter | None:
        """Takes the metrics of the run until it ends; None where they go nowhere."""
        stop = self.stop

        def patience() -> float:
            return _INTERRUPTED_PATIENCE_S if stop.is_set() else PATIENCE_S

        return self.resources.enter_context(publishing(self.settings, patience=patience))


@contextmanager
def opening() -> Iterator[Opening]:
    """Open a run within a flow; everything is closed when the `with` block ends."""
    with ExitStack() as resources:
        yield Opening(resources)


_RUNS: dict[tuple[type[Any], str], Any] = {}


@contextmanager
def registered(run: Kind) -> Iterator[Kind]:
    """Have tasks find the run by its id, until the `with` block ends."""
    _RUNS[type(run), run.id] = run
    try:
        yield run
    finally:
        del _RUNS[type(run), run.id]


def find_run(kind: type[Kind], run_id: str) -> Kind:
    """The run of this kind that is under way with this id.

    Raises:
        LookupError: a task was started outside its run, for example from a saved parameter set.
    """
    try:
        run: Kind = _RUNS[kind, run_id]
    except KeyError:
        raise LookupError(f"run {run_id} is not under way in this process") from None
    return run


class Observer(Protocol):
    """Watches the runs of this process: the terminal, tests."""

    def started(self, run: Any) -> None:
        """A run has everything it needs and begins."""

    def ended(self, report: Any) -> None:
        """A run is over."""


_OBSERVERS: list[Observer] = []


@contextmanager
def observing(observer: Observer) -> Iterator[None]:
    """Have runs that start within the `with` block watched."""
    _OBSERVERS.append(observer)
    try:
        yield
    finally:
        _OBSERVERS.remove(observer)


def announce(run: PipelineRun[Any]) -> None:
    """Call the observers: the run begins."""
    for observer in _OBSERVERS:
        observer.started(run)


def conclude(run: PipelineRun[Any], report: Reported, *, links: str = "") -> State[Reported]:
    """End a run: metrics, artifacts, a line in the log, observers, and the state.

    Args:
        links: Markdown that the summary closes with.
    """
    report = _of_all_attempts(report)
    for ended in run.on_end:
        ended(report)
    _publish(report, links)
    return finish(report)


#: The label of a flow run that keeps what its attempts have done so far, as JSON.
_COUNTS_LABEL = "headrace.counts"


def _of_all_attempts(report: Reported) -> Reported:
    """The report of the whole run: one that was retried in the UI is one run in several attempts.

    Only runs of a deployment can be retried. What an attempt did that was killed is in the lake,
    but not in the report.
    """
    context = FlowRunContext.get()
    if context is None or context.flow_run is None or context.flow_run.deployment_id is None:
        return report
    kept = context.flow_run.labels.get(_COUNTS_LABEL)
    if isinstance(kept, str):
        report = report.plus(json.loads(kept))
    try:
        with get_client(sync_client=True) as client:
            labels: dict[str, bool | int | float | str] = {
                _COUNTS_LABEL: json.dumps(report.counts())
            }
            client.update_flow_run_labels(context.flow_run.id, labels)
    except API_ERRORS as error:
        log.info("a retry of this run will not know what it did: %s", error)
    return report


def finish(report: Reported) -> State[Reported]:
    """How every run ends, also one that could not begin: a log line, the observers, the state."""
    log_end(report)
    for observer in _OBSERVERS:
        observer.ended(report)
    return state_of(report)


#: Characters of the cause in the message of a state.
_LONGEST_CAUSE = 500


class _FailureIsReported(logging.Filter):
    """Drops what Prefect's engine says of a failed run after the line that has its state.

    Where the run has a report, the engine looks for an exception in the data of the state, finds
    the report, and logs a traceback of its own search. Where it has none, the engine raises what
    ended it; an error that was foreseen says in words what to do, and its state has them.
    """

    def filter(self, record: logging.LogRecord) -> bool:
        error = record.exc_info[1] if record.exc_info else None
        return not (
            isinstance(error, HeadraceError)
            or (
                isinstance(error, TypeError)
                and str(error).startswith("Unexpected result for failed")
            )
        )


#: Loggers of the engine: in a run, and around it.
for _name in ("prefect.flow_runs", "prefect.engine"):
    logging.getLogger(_name).addFilter(_FailureIsReported())


def state_of(report: Reported) -> State[Reported]:
    """Completed, AlreadyRunning, Partial, Failed or Cancelled, with the report as its data."""
    message = report.headline()
    if not report.status.quiet and (remarks := report.remarks()):
        # Alarms and lists of runs show this line alone. A cause may name hundreds of products.
        message += f". {remarks[0][:_LONGEST_CAUSE]}"
    if report.stopped:
        return Cancelled(message=message, data=report)
    if report.status is Status.DONE:
        return Completed(message=message, data=report)
    if report.status is Status.RUNNING_ELSEWHERE:
        return Completed(name="AlreadyRunning", message=message, data=report)
    return Failed(name=report.status.value.title(), message=message, data=report)


def state_of_error(error: HeadraceError) -> State[HeadraceError]:
    """Failed, for a run that ended with an error that was foreseen: in the error's own words.

    They are a line of the run's log, too, which is all that the log of served runs shows of it.
    """
    get_run_logger().error("%s", error)
    return Failed(message=str(error), data=error)


def ui_url() -> str | None:
    """Where Prefect shows the flow run that this is called in."""
    return flow_run.ui_url or None


def _publish(report: Report, links: str) -> None:
    """The tables and the summary in the UI; an absent API is no failure of the run."""
    sheets = report.sheets()
    if not sheets:
        return
    try:
        require_api()
        for sheet in sheets:
            create_table_artifact(
                table=list(sheet.rows),
                key=f"{report.key}-{sheet.key}" if sheet.key else report.key,
                description=sheet.description,
            )
        create_markdown_artifact(
            markdown=report.markdown() + links,
            key=f"{report.key}-summary",
            description="What this run did",
        )
    except API_ERRORS as error:
        log.warning("the summary is not shown in the UI: %s", error)


#: An update costs the API some 50 ms, so the UI hears of progress this often at most.
UPDATE_INTERVAL_S = 1.0

#: After a failure the display rests; it must never slow a run down.
REST_S = 30.0


class ProgressArtifact:
    """A progress bar in the UI from the start of a `with` block to its end.

    Args:
        progress: how far the run is.
        key: the artifact's.
        ends_full: work without a known end is all done when it ends well.
    """

    def __init__(
        self, progress: Progress, key: str = "headrace-progress", *, ends_full: bool = False
    ) -> None:
        self._progress = progress
        self._key = key
        self._ends_full = ends_full
        self._id: UUID | None = None
        self._next = 0.0

    def __enter__(self) -> ProgressArtifact:
        self.tick()
        return self

    def __exit__(self, _kind: object, exc: object, _trace: object) -> None:
        if exc is None and self._next - time.monotonic() <= UPDATE_INTERVAL_S:  # it does not rest
            self._next = 0.0
            self._update(full=self._ends_full)

    def tick(self) -> None:
        """Bring the bar up to date, if it is time."""
        self._update(full=False)

    def _update(self, *, full: bool) -> None:
        now = time.monotonic()
        if now < self._next:
            return
        self._next = now + UPDATE_INTERVAL_S
        percent = 100.0 if full else min(100.0, self._progress.percent())
        description = self._progress.described()
        try:
            require_api()
            self._show(percent, description)
        except API_ERRORS as error:
            log.info("progress is not shown for a while: %s", error)
            self._next = now + REST_S

    def _show(self, percent: float, description: str) -> None:
        if self._id is None:
            created = create_progress_artifact(
                progress=percent, key=self._key, description=description
            )
            self._id = created if isinstance(created, UUID) else None
        else:
            update_progress_artifact(self._id, progress=percent, description=description)
