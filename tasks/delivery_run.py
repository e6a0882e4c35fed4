"""A run that sends requests: its journal, its keys, its workers, how far it is."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field

from blocks.resolve import keys_of, quota_place
from headrace.amounts import counted
from headrace.delivery.benchmark import BenchmarkLine
from headrace.delivery.client import KeyedClient
from headrace.delivery.delivery import Delivery
from headrace.delivery.journal import Journal, Recovered
from headrace.delivery.request import SendRequest, queue_lease
from headrace.delivery.sources import check_source
from headrace.logs.redaction import hide
from headrace.quota import (
    BreakerConfig,
    Gate,
    KeyPool,
    PoolKey,
    QuotaConfig,
    open_gate,
    open_key_pool,
    parse_rates,
)
from headrace.run.progress import Bar
from headrace.settings import Settings
from headrace.stopping import Ending, StopEvent
from headrace.wire.transport import Transport, quota_name
from tasks.kernel import QuotaRun, announce, opening, registered


@dataclass
class DeliveryProgress:
    """How many requests have ended."""

    count: int
    seconds: float
    line: Callable[[], BenchmarkLine | None] = lambda: None
    clock: Callable[[], float] = time.monotonic
    started: float = field(default_factory=time.monotonic)

    def percent(self) -> float:
        """Of the count, or of the time; 0 for a file, whose end is not known."""
        shares = [0.0]
        if self.count and (line := self.line()):
            shares.append((line.successes + line.expired + line.buried) / self.count)
        if self.seconds:
            shares.append((self.clock() - self.started) / self.seconds)
        return min(100.0, 100.0 * max(shares))

    def described(self) -> str:
        """The line of the benchmark."""
        return str(self.line() or "starting")

    def so_far(self) -> str:
        """Requests that have ended."""
        line = self.line()
        ended = line.successes + line.expired + line.buried if line else 0
        return f"{counted(ended, 'request')} ended"

    def bars(self) -> list[Bar]:
        """One for all requests."""
        share = self.percent() / 100 if self.count or self.seconds else None
        return [Bar("requests", share, (self.so_far(),), "sending")]

    def eta_s(self, per_s: float | None) -> float | None:  # noqa: ARG002 - as `Progress`
        """Of the time, if it was given."""
        if not self.seconds or self.count:
            return None
        return max(0.0, self.seconds - (self.clock() - self.started))


@dataclass(kw_only=True)
class DeliveryRun(QuotaRun[SendRequest]):
    """One run. Made by `open_delivery`, closed with it."""

    kept = "what is in flight, the rest stays in the queue"

    journal: Journal
    client: KeyedClient
    delivery: Delivery
    progress: DeliveryProgress
    ending: Ending
    recovered: Recovered
    resumed: int = 0
    lines: list[BenchmarkLine] = field(default_factory=list)


@contextmanager
def open_delivery(request: SendRequest) -> Iterator[DeliveryRun]:
    """Everything that a run needs, checked before any request leaves; closed at the end.

    Raises:
        LeaseHeld: another run delivers this queue.
        JournalUnavailable: its journal cannot be used.
        SourceUnreadable: the file cannot be read, or a line of it is no request.
        ConfigurationError: keys or rates cannot be used.
        ConnectionFailed: nothing listens at the address.
    """
    keys = keys_of(request.keys)
    hide(*(key.secret.get_secret_value() for key in keys))
    if request.source:
        check_source(request.source)
    with opening() as begun:
        settings, opened = begun.settings, begun.resources
        begun.hold(queue_lease(request.queue))
        journal = opened.enter_context(Journal(settings.journal_of(request.queue)))
        recovered = journal.recover(most_tries=request.tries)
        ending, breaking = Ending(begun.stop), StopEvent()
        permits = _open_permits(request, settings, keys)
        begun.keep_open(permits)
        transport = Transport(request.base_url, max_connections=request.in_flight, stop=breaking)
        opened.callback(transport.close)
        transport.check_reachable()
        client = KeyedClient(transport, permits, stop=ending.stop)
        delivery = Delivery(
            journal,
            client,
            ending,
            break_off=breaking.set,
            capacity=request.capacity,
            workers=request.in_flight,
            most_tries=request.tries,
            per_s=lambda: permits.usable_per_s if isinstance(permits, KeyPool) else permits.per_s,
        )
        run = DeliveryRun(
            id=begun.run_id,
            request=request,
            settings=settings,
            stop=begun.stop,
            progress=DeliveryProgress(
                request.count, request.seconds, lambda: delivery.line(closes=False)
            ),
            client=client,
            gate=permits,
            rates=permits.rates if isinstance(permits, KeyPool) else request.rate,
            per_s=permits.per_s,
            journal=journal,
            delivery=delivery,
            ending=ending,
            recovered=recovered,
        )
        if isinstance(permits, KeyPool):
            permits.on_key_change(run.key_changed)
        if meter := begun.meter():
            metrics = run.publish_requests(meter, "keyed-requests")
            run.on_end.append(lambda report: metrics.ended(report.status.value))
        with registered(run):
            announce(run)
            yield run


def _open_permits(request: SendRequest, settings: Settings, keys: list[PoolKey]) -> Gate | KeyPool:
    """The quota of the keys, or that of the server where there are none."""
    config = QuotaConfig(name=quota_name(request.base_url), rates=parse_rates(request.rate))
    breaker = BreakerConfig(cooldown_s=settings.breaker_cooldown_s)
    limit_s = request.outage_limit_s or None
    if not keys:
        return open_gate(quota_place(settings), config, breaker, limit_s)
    return open_key_pool(quota_place(settings), config, keys, breaker, limit_s, ordered=True)
