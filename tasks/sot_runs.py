"""A run of the log under way: its store, its stop, how far it is; found by the run's id."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from typing import Any, Generic, TypeVar

from prefect.runtime import flow_run

from blocks.resolve import sot_store_of
from blocks.sot import BlockHeads
from headrace.leases import hold, open_leases
from headrace.metrics import publishing
from headrace.pull.turns import lake_tag
from headrace.settings import Settings, load_settings
from headrace.signals import stop_on_signals
from headrace.sot.figures import LogFigures
from headrace.sot.position import Position
from headrace.sot.requests import (
    MigrateRequest,
    RecoverRequest,
    VerifyRequest,
    WriteRequest,
)
from headrace.sot.store import SotStore
from headrace.stopping import StopEvent
from tasks.figures import patience_of
from tasks.logs import logs_of_run

Request = TypeVar("Request", WriteRequest, VerifyRequest, RecoverRequest, MigrateRequest)


@dataclass
class Progress:
    """How many records are done; counted from several threads."""

    records: int = 0
    started: float = field(default_factory=time.monotonic)
    _mutex: threading.Lock = field(default_factory=threading.Lock, repr=False)

    def add(self, records: int) -> None:
        """Count some."""
        with self._mutex:
            self.records += records

    @property
    def text(self) -> str:
        """For people."""
        elapsed_s = time.monotonic() - self.started
        return f"{self.records:,} records, {self.records / max(elapsed_s, 1e-3):,.0f}/s"


@dataclass
class SotRun(Generic[Request]):
    """One run. Made by `open_sot_run`, closed with it."""

    id: str
    request: Request
    settings: Settings
    store: SotStore
    heads: BlockHeads
    stop: StopEvent
    figures: LogFigures | None = None
    progress: Progress = field(default_factory=Progress)

    @property
    def floors(self) -> dict[int, Position]:
        """The heads that were remembered; none if the request does not want them.

        Raises:
            HeadsUnreadable, CheckpointNotSaved: they cannot be had.
        """
        if not getattr(self.request, "heads", False):
            return {}
        kept = self.heads.load()
        return kept.positions if kept else {}


#: The runs of this process by id, for tasks, and for whoever shows them.
RUNS: dict[str, SotRun[Any]] = {}


@contextmanager
def open_sot_run(
    run_id: str, request: Request, *, create: bool = False, alone: bool = False
) -> Iterator[SotRun[Request]]:
    """Everything that a run needs, checked before any work is spent; closed at the end.

    Args:
        run_id: of the flow run.
        request: what it is asked.
        create: make the store if there is none.
        alone: hold the store's lease, so that a second start ends at once. The store itself keeps
            chains from forking; this keeps two runs from taking symbols from each other.

    Raises:
        LeaseHeld: a run is at it already.
        StoreMisconfigured, StoreUnavailable, StateError: the store cannot be used.
    """
    settings = load_settings()
    with ExitStack() as opened:
        opened.enter_context(logs_of_run(run_id, settings))
        stop = opened.enter_context(stop_on_signals())
        store = sot_store_of(request.store).open(create=create)
        opened.callback(store.close)
        if alone:
            leases = open_leases(settings.lease_location)
            name = f"sot@{lake_tag(store.location)}:write"
            opened.enter_context(
                hold(leases, name, run_id=run_id, ttl_s=settings.lease_ttl_s, stop=stop)
            )
        heads = BlockHeads(store.location, stop=stop)
        figures = opened.enter_context(_measured(settings, store.location, stop))
        run = SotRun(run_id, request, settings, store, heads, stop, figures)
        RUNS[run_id] = run
        opened.callback(RUNS.pop, run_id)
        yield run


@contextmanager
def _measured(settings: Settings, store: str, stop: StopEvent) -> Iterator[LogFigures | None]:
    """The figures of the run, published for a `with` block; None where they go nowhere."""
    with publishing(settings, patience=patience_of(stop)) as meter:
        flow = flow_run.flow_name or "sot"
        yield None if meter is None else LogFigures(meter, source=store, flow=flow)
