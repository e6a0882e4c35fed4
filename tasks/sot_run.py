"""A run of the log under way: its store, its stop, how far it is."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TypeVar

from prefect.runtime import flow_run

from blocks.resolve import sot_store_of
from blocks.sot import BlockHeads
from headrace.amounts import counted
from headrace.lake.names import location_digest
from headrace.run.progress import Bar
from headrace.sot.chain import Position
from headrace.sot.exceptions import DamagedLog
from headrace.sot.metrics import LogMetrics
from headrace.sot.requests import (
    AnchorRequest,
    MigrateRequest,
    RecoverRequest,
    VerifyRequest,
    WriteRequest,
)
from headrace.sot.store import SotStore
from tasks.events import emit
from tasks.kernel import PipelineRun, announce, find_run, opening, registered
from tasks.sot_anchors import Anchoring, Witnesses

Request = TypeVar(
    "Request", WriteRequest, VerifyRequest, RecoverRequest, MigrateRequest, AnchorRequest
)


@dataclass
class RecordProgress:
    """How many records are done; counted from several threads."""

    records: int = 0
    clock: Callable[[], float] = time.monotonic
    started: float = field(default_factory=time.monotonic)
    _mutex: threading.Lock = field(default_factory=threading.Lock, repr=False)

    def add(self, records: int) -> None:
        """Count some."""
        with self._mutex:
            self.records += records

    def percent(self) -> float:
        """A stream has no known end."""
        return 0.0

    def described(self) -> str:
        """Records, and how many a second."""
        elapsed_s = time.monotonic() - self.started
        return f"{counted(self.records, 'record')}, {self.records / max(elapsed_s, 1e-3):,.0f}/s"

    def so_far(self) -> str:
        """The same."""
        return self.described()

    def bars(self) -> list[Bar]:
        """One, without an end."""
        return [Bar("records", None, (self.described(),), "")]

    def eta_s(self, per_s: float | None) -> float | None:  # noqa: ARG002 - as `Progress`
        """Not known."""
        return None


@dataclass(kw_only=True)
class SotRun(PipelineRun[Request]):
    """One run. Made by `open_sot_run`, closed with it."""

    store: SotStore
    heads: BlockHeads
    progress: RecordProgress
    metrics: LogMetrics | None = None
    anchoring: Anchoring | None = None
    witnesses: Witnesses | None = None

    @property
    def saved_heads(self) -> dict[int, Position]:
        """The heads that were remembered; none if the request does not want them.

        Raises:
            HeadsUnreadable, CheckpointNotSaved: they cannot be had.
        """
        if not getattr(self.request, "heads", False):
            return {}
        kept = self.heads.load()
        return kept.positions if kept else {}


def sot_run_of(run_id: str) -> SotRun[Any]:
    """The run of the log under way with this id; see `find_run`."""
    return find_run(SotRun, run_id)


@contextmanager
def open_sot_run(
    request: Request, *, create: bool = False, alone: bool = False
) -> Iterator[SotRun[Request]]:
    """Everything that a run needs, checked before any work is spent; closed at the end.

    Args:
        request: what it is asked.
        create: make the store if there is none.
        alone: hold the store's lease, so that a second start ends at once. The store itself keeps
            chains from forking; this keeps two runs from taking symbols from each other.

    Raises:
        LeaseHeld: a run is at it already.
        StoreMisconfigured, StoreUnavailable, StateError: the store cannot be used.
    """
    with opening() as begun:
        settings, stop, opened = begun.settings, begun.stop, begun.resources
        block = sot_store_of(request.store)
        opened.enter_context(_reporting_damage(block.location, begun.run_id))
        store = block.open(create=create)
        opened.callback(store.close)
        if alone:
            begun.hold(f"sot@{location_digest(store.location)}:write")
        run = SotRun(
            id=begun.run_id,
            request=request,
            settings=settings,
            stop=stop,
            store=store,
            heads=BlockHeads(store.location, stop=stop),
            progress=RecordProgress(),
        )
        if meter := begun.meter():
            flow = flow_run.flow_name or "sot"
            run.metrics = LogMetrics(meter, source=store.location, flow=flow)
            run.on_end.append(run.metrics.ended)
        opened.enter_context(registered(run))
        announce(run)
        yield run


@contextmanager
def _reporting_damage(location: str, run_id: str) -> Iterator[None]:
    """Emit an event if what the log holds is found damaged before there is a report."""
    try:
        yield
    except DamagedLog as error:
        name = location if "://" in location else str(Path(location).absolute())
        emit("log", name, "chain-broken", {"run": run_id, "problem": str(error)})
        raise
