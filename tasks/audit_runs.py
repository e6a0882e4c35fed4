"""An audit under way: everything its tasks share, found by the run's id."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime

from blocks.checkpoint import BlockCheckpoints
from blocks.resolve import lake_of
from headrace.audit.healing import Healer
from headrace.audit.request import AuditRequest, chosen_products
from headrace.lake import RawLake, Store
from headrace.lake.exceptions import LakeUnusable, StoreError
from headrace.lake.names import exchange_prefix, product_of_folder
from headrace.pull.sources import EXCHANGE
from headrace.settings import load_settings
from headrace.signals import stop_on_signals
from headrace.stopping import StopEvent
from tasks.logs import logs_of_run
from tasks.runs import Run, open_run


@dataclass
class Audit:
    """One run of an audit. Made by `open_audit`, closed with it.

    Args:
        products: what is audited, in this order.
        location: the lake, as it calls itself.
        pull: everything that a pull of the products needs; None for an audit offline.
        known: newest ids that the exchange has told already; they are not asked for again.
    """

    id: str
    request: AuditRequest
    products: tuple[str, ...]
    location: str
    lake: RawLake
    checkpoints: BlockCheckpoints
    stop: StopEvent
    pull: Run | None
    known: dict[str, int] = field(default_factory=dict)
    started: float = field(default_factory=time.monotonic)
    began: datetime = field(default_factory=lambda: datetime.now(UTC))

    @property
    def pending_since(self) -> datetime | None:
        """From when on trades may be missing still: the same moment for both looks of a healing."""
        return None if self.request.lag is None else self.began - self.request.lag

    @property
    def requests(self) -> int:
        """Requests sent to the exchange so far."""
        return self.pull.client.stats.requests if self.pull else 0

    @property
    def healer(self) -> Healer:
        """What repairs products of this lake."""
        return Healer(self.lake, self.checkpoints, self.id, deep=self.request.deep, stop=self.stop)


_AUDITS: dict[str, Audit] = {}


def audit_of(run_id: str) -> Audit:
    """The audit under way with this id.

    Raises:
        LookupError: a task was started outside its run.
    """
    try:
        return _AUDITS[run_id]
    except KeyError:
        raise LookupError(f"audit {run_id} is not under way in this process") from None


@contextmanager
def open_audit(run_id: str, request: AuditRequest) -> Iterator[Audit]:
    """Everything that an audit needs; a lake that is not there is not made.

    Raises:
        NothingToAudit, NotInLake: there is nothing to look at.
        LakeUnusable: the lake is a file, or cannot be reached.
        ConfigurationError, StateError: something cannot be used.
        ConnectionFailed: nobody listens at the exchange's address.
    """
    block = lake_of(request.lake)
    store = block.store()
    try:
        stored = _stored_in(store)
    except StoreError as error:
        raise LakeUnusable(store.location, error.message, hint=error.hint) from error
    products = chosen_products(request.products, stored, store.location)
    checkpoints = BlockCheckpoints(store.location)
    with ExitStack() as opened:
        if request.offline:
            pull = None
            opened.enter_context(logs_of_run(run_id, load_settings()))
            stop = opened.enter_context(stop_on_signals())
            lake = block.open().raw(EXCHANGE)
        else:
            pull = opened.enter_context(open_run(run_id, request.pull_of(products)))
            stop, lake = pull.stop, pull.lake
        audit = Audit(run_id, request, products, store.location, lake, checkpoints, stop, pull)
        _AUDITS[run_id] = audit
        opened.callback(_AUDITS.pop, run_id)
        yield audit


def _stored_in(store: Store) -> list[str]:
    folders = store.folders(exchange_prefix(EXCHANGE))
    return [product for folder in folders if (product := product_of_folder(folder))]
