"""The gate that every request passes: breaker, then quota, then breaker again.

gate = open_gate(folder, QuotaConfig(name="api.example.com", rates=parse_rates("10/s")))
with gate.admit(lane=Lane.INGEST) as admission:
    admission.sending()
    response = fetch()
    admission.answered(status=response.status, headers=response.headers)

In a coroutine: `async with`, and `await admission.about_to_send()`.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import TypeVar

from headrace.quota import processes
from headrace.quota.bookings import SlotBook
from headrace.quota.breaker_file import Breaker, Listener
from headrace.quota.bucket import SlotLimiter
from headrace.quota.clock import Clock, MonotonicClock
from headrace.quota.config import BreakerConfig, QuotaConfig
from headrace.quota.exceptions import RatesError
from headrace.quota.feedback import Cause, Counters, SlowdownChange
from headrace.quota.lanes import Lane
from headrace.quota.location import Place, QuotaServer
from headrace.quota.rates import format_rates
from headrace.quota.request import Request, SlotItem
from headrace.quota.session import Permit, Session
from headrace.quota.shared import open_ledger
from headrace.quota.status import NO_BOOK, BreakerStatus, QuotaStatus, breaker_path, quota_path
from headrace.stopping import StopEvent

T = TypeVar("T")

#: For callers who never call a wait off.
_NEVER = StopEvent()


def open_gate(
    place: Place,
    config: QuotaConfig,
    breaker: BreakerConfig | None = None,
    outage_limit_s: float | None = None,
    *,
    clock: Clock | None = None,
) -> Gate:
    """Open the gate to one server, shared with everything that uses the same `place`.

    Args:
        place: a folder, which holds `quota-<name>.sqlite` and `breaker-<name>.sqlite` and is made
            if missing, for its owner alone; or a server that machines share.
        config: the quota.
        breaker: when to leave the server alone.
        outage_limit_s: how long to wait for an open breaker, in seconds, before `OutageError`;
            None for as long as it takes.
        clock: the time; the machine's monotonic clock, or that of the server, unless a test says
            otherwise.

    Raises:
        RatesConflict: live processes use this quota with other rates.
        QuotaUnavailable: the folder, a file or the server cannot be used. Without a count there are
            no permits.
        ConfigurationError: the server refuses us.
    """
    return Gate(place, config, breaker or BreakerConfig(), outage_limit_s, clock)


class Gate:
    """See `open_gate`. For any number of threads; a fork or a pickled copy shares the same files.

    Attributes:
        config: the quota's settings.
        clock: the time.
    """

    _session_class = Session

    def __init__(
        self,
        place: Place,
        config: QuotaConfig,
        breaker: BreakerConfig,
        outage_limit_s: float | None,
        clock: Clock | None,
    ) -> None:
        self.config = config
        self._place = place
        self._breaker_config = breaker
        self._outage_limit_s = outage_limit_s
        self.clock: Clock = clock or MonotonicClock()
        self._listeners: list[Listener] = []
        self._slowdown_listeners: list[Callable[[SlowdownChange], object]] = []
        self._limiter = None if config.unlimited else SlotLimiter(self)
        self._session = self._open()

    @property
    def _title(self) -> str:
        """What messages call it."""
        return self.config.name

    def admit(
        self,
        lane: Lane = Lane.BACKFILL,
        timeout_s: float | None = None,
        stop: StopEvent | None = None,
        weight: int = 1,
        request: str = "",
    ) -> Admission:
        """Ask for leave to send one attempt of one request: enter what is returned.

        Args:
            lane: who goes first.
            timeout_s: the longest wait, in seconds. What cannot be met is refused at once.
            stop: looked at while waiting. (With `async with`, cancel the task instead.)
            weight: how many permits the request costs.
            request: method, path and query. Failures of the same request are one piece of evidence
                for the breaker; without it each of them is one.
        """
        return Admission(self, self._request(lane, weight, timeout_s, stop, request))

    def take(
        self,
        lane: Lane = Lane.BACKFILL,
        weight: int = 1,
        timeout_s: float | None = None,
        stop: StopEvent | None = None,
    ) -> None:
        """Wait for a permit of the quota alone, for callers who do not report answers.

        Without rates it returns at once.

        Raises:
            PermitTimeout: the deadline cannot be met; nothing was booked.
            Stopped: `stop` was set.
        """
        if not self.config.unlimited:
            self.session.take(self._request(lane, weight, timeout_s, stop))

    def take_now(self, lane: Lane = Lane.BACKFILL, weight: int = 1) -> int | None:
        """Take a permit of the quota alone if there is one at this moment.

        Returns:
            None when it was taken; else when there may be one, in nanoseconds of the clock.
        """
        return None if self.config.unlimited else self.session.take_now(lane, weight)

    def fill(self, item: SlotItem) -> None:
        """Give an item its slot when the moment has come; see `Session.fill`."""
        self.session.fill(item)

    def _request(
        self,
        lane: Lane,
        weight: int,
        timeout_s: float | None,
        stop: StopEvent | None,
        about: str = "",
    ) -> Request:
        rates = self.config.rates
        if weight < 1 or (rates and weight > rates[0].limit):
            raise RatesError(format_rates(rates), f"it can never give {weight} permits at once")
        name = self.config.name
        return Request(name, self.clock, lane, weight, timeout_s, stop or _NEVER, about)

    @property
    def session(self) -> Session:
        """This process's part; a new one after a fork."""
        session = self._session
        return session if session.pid == os.getpid() else self._after_fork()

    @property
    def counters(self) -> Counters:
        """What was given and waited for in this process."""
        return self.session.counters

    async def in_thread(self, work: Callable[[StopEvent], T]) -> T:
        """Run work that waits in a thread of this gate; its stop event is set on cancellation."""
        return await self.session.threads.run(work)

    def moments(self) -> list[int]:
        """When the permits that still count left, latest first, in nanoseconds of the clock."""
        book = self.session.book
        return [] if book is None else book.moments()

    def forget(self) -> None:
        """Forget all permits given, as if the quota were new."""
        book = self.session.book
        if book is not None:
            book.forget()

    def status(self) -> QuotaStatus:
        """The quota and its breaker as all processes see them now."""
        session = self.session
        return QuotaStatus(
            self.config.name,
            NO_BOOK if session.book is None else session.book.status(),
            BreakerStatus.of(session.breaker.state(), self.clock.now()),
        )

    @property
    def per_s(self) -> float | None:
        """The mean rate that it sustains, in requests a second; None for no limit."""
        return self.config.per_s

    def waiting_for(self) -> Cause | None:
        """What threads of this process wait for just now; cheap."""
        return self._session.counters.waiting_for()

    def on_breaker_change(self, listener: Listener) -> None:
        """Have `listener` called with every `BreakerChange` that this process makes."""
        self._listeners.append(listener)

    def on_slowdown(self, listener: Callable[[SlowdownChange], object]) -> None:
        """Have `listener` called with every `SlowdownChange` that this process sees."""
        self._slowdown_listeners.append(listener)

    def close(self) -> None:
        """Sign off and close the files."""
        if self._session.pid == os.getpid():
            self._session.close()

    def __enter__(self) -> Gate:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def __reduce__(self) -> tuple[object, ...]:
        return open_gate, (self._place, self.config, self._breaker_config, self._outage_limit_s)

    def _open(self) -> Session:
        name = self.config.name
        ledger = None
        at: tuple[Path, Path] | tuple[str, str]
        if isinstance(self._place, QuotaServer):
            ledger = open_ledger(self._place, name, self.config.rates)
            self.clock = ledger.clock
            at = str(self._place), str(self._place)
        else:
            at = breaker_path(self._place, name), quota_path(self._place, name)
        breaker = Breaker(
            at[0], self._title, self._breaker_config, self.clock, self._listeners, ledger
        )
        book = None
        try:
            if not self.config.unlimited:
                book = SlotBook(at[1], self.config, self.clock, ledger)
        except BaseException:
            breaker.close()
            raise
        put = None if self._limiter is None else self._limiter.put
        session = self._session_class(
            self._title,
            book,
            breaker,
            self.clock,
            self._outage_limit_s,
            put,
            self._slowdown_listeners,
        )
        processes.watch(session)
        return session

    def _after_fork(self) -> Session:
        with processes.opening():
            if self._session.pid != os.getpid():
                processes.keep(self._session)
                self._session = self._open()
            return self._session


class Admission:
    """Leave to send one attempt; entering it waits, leaving it reports.

    Only what the server did is its failure. Leaving by Python's `TimeoutError` or `ConnectionError`
    without `answered` counts as one; any other exception says nothing about the server, so who
    knows better reports it (`failed`).
    """

    def __init__(self, gate: Gate, request: Request) -> None:
        self._session = gate.session
        self._request = request
        self._permit: Permit | None = None

    def __enter__(self) -> Admission:
        self._permit = self._session.acquire(self._request)
        return self

    async def __aenter__(self) -> Admission:
        self._permit = await self._session.threads.run(self._acquire, self._session.give_back)
        return self

    def _acquire(self, stop: StopEvent) -> Permit:
        return self._session.acquire(replace(self._request, stop=stop))

    async def __aexit__(self, *raised: object) -> None:
        self.__exit__(*raised)

    @property
    def probing(self) -> bool:
        """Whether the request probes a server that has been failing."""
        return self._permit is not None and self._permit.given.probe > 0

    def sending(self) -> None:
        """Stamp the moment just before the request leaves.

        A permit that has become void meanwhile (the thread was held up) is exchanged for a new
        one, which may wait and raise as entering does. In a coroutine, await `about_to_send`.
        """
        if permit := self._done():
            self._permit = self._session.renew(permit, self._request)

    async def about_to_send(self) -> None:
        """As `sending`; where that has to wait, a thread does it, never the event loop."""
        permit = self._done()
        if permit is None:
            return
        if not self._session.void(permit):
            self._permit = self._session.renew(permit, self._request)
            return

        def renewed(stop: StopEvent) -> Permit:
            return self._session.renew(permit, replace(self._request, stop=stop))

        self._permit = await self._session.threads.run(renewed, self._session.give_back)

    def answered(
        self,
        status: int,
        retry_after_s: float | None = None,
        headers: Mapping[str, str] | None = None,
        *,
        of_host: bool = False,
    ) -> None:
        """Report an answer.

        Args:
            status: of the answer. 5xx is a failure of the server, everything else is not; 429
                slows all processes down, a lone one hardly (see `headrace.quota.feedback`).
            retry_after_s: the pause that the server asks for, if the caller has read it.
            headers: of the answer; `Retry-After` and rate-limit headers are read.
            of_host: as in `failed`.
        """
        if permit := self._done():
            request = None if of_host else self._request.id
            self._session.answered(permit, status, retry_after_s, headers, request)

    def failed(self, *, neutral: bool = False, of_host: bool = False) -> None:
        """Report that no answer came, or one that says 200 but is broken (HTML, cut short).

        Args:
            neutral: the reason lies on our side and says nothing about the server.
            of_host: any request would have met with it (there was no connection, say), so each
                failure counts, also those of one request.
        """
        if permit := self._done():
            if neutral:
                self._session.breaker.dropped(permit.given)
            else:
                self._session.breaker.failed(permit.given, None if of_host else self._request.id)

    def __exit__(self, _kind: object, error: object, _trace: object) -> None:
        self.failed(neutral=not isinstance(error, TimeoutError | ConnectionError))

    def _done(self) -> Permit | None:
        permit, self._permit = self._permit, None
        return permit
