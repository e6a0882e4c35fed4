"""A running exchange without its sockets: what a request meets on its way, and what tests turn."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from email.utils import formatdate
from typing import Any

from headrace.sim.actions import Empty, Refuse, Stale, Stuck, delivery, substitute
from headrace.sim.arrivals import Arrival, ArrivalLog
from headrace.sim.catalogue import ProductSpec
from headrace.sim.exchange import ExchangeApi
from headrace.sim.faults import Fault, FaultBook
from headrace.sim.history import History
from headrace.sim.http import Reply, Request
from headrace.sim.latency import LatencySource
from headrace.sim.limits import Gate
from headrace.sim.market import LiteralRow, Market
from headrace.sim.settings import ExchangeSettings
from headrace.sim.signing import Doorkeeper

_UNANSWERED = ("hang", "reset")


class ExchangeSimulation:
    """State and behaviour of one simulated exchange.

    A request passes, in this order: the inbound share of its latency, the rate limits, the check
    of its signature, the scripted faults, the API, and the rest of its latency.

    Args:
        settings: what it is.
        clock: seconds, for growth, limits, intervals and the log. Latency passes in real time.
        wall: Unix seconds, for signatures and dates.
    """

    def __init__(
        self,
        settings: ExchangeSettings,
        *,
        clock: Callable[[], float] = time.monotonic,
        wall: Callable[[], float] = time.time,
    ) -> None:
        self.settings = settings
        self.clock = clock
        self._our_wall = wall
        self._started_s = clock()
        self._market = Market(
            settings.products, seed=settings.seed, now_s=settings.now_s, clock=clock
        )
        self._api = ExchangeApi(self._market)
        self._gate = Gate(settings.limits)
        self._doorkeeper = Doorkeeper(settings.keys)
        self._latency = LatencySource(settings.latency, settings.seed)
        self._log = ArrivalLog()
        self._faults = FaultBook(settings.seed)
        for fault in settings.faults:
            self._faults.add(fault)

    async def handle(self, request: Request) -> Reply:
        """Answer one request of a client."""
        loop = asyncio.get_running_loop()
        arrived = loop.time()
        arrival = self._log.opened(request.arrived_s, request.target, self._api.subject(request))
        status = None
        try:
            delay_s = self._latency.delay_s(arrival.number)
            inbound_s = delay_s * self._latency.model.inbound
            if inbound_s:
                await asyncio.sleep(inbound_s)
            arrival.counted_s = self.clock() if inbound_s else request.arrived_s
            reply = self._dated(self._judge(request, arrival))
            if delay_s:
                await asyncio.sleep(max(0.0, arrived + delay_s - loop.time()))
            if reply.delivery.how not in _UNANSWERED:
                status = reply.status
            return reply
        finally:
            self._log.closed(arrival, status)

    def _wall(self) -> float:
        """The exchange's clock, which need not agree with this machine's."""
        return self._our_wall() + self.settings.clock_ahead_s

    def _dated(self, reply: Reply) -> Reply:
        """With the time at the exchange, as every HTTP server with a clock says it."""
        date = formatdate(self._wall(), usegmt=True)
        return replace(reply, headers={"Date": date, **reply.headers})

    def _judge(self, request: Request, arrival: Arrival) -> Reply:
        assert arrival.counted_s is not None, "a request is counted before it is judged"
        refusal = self._gate.refuse(arrival.counted_s, self._wall())
        refusal = refusal or self._doorkeeper.refuse(request, self._wall())
        if refusal:
            return refusal
        struck = self._faults.strike(self._api.subject(request), self.uptime_s())
        if struck is None:
            return self._api.answer(request)
        arrival.fault, fault = struck
        if instead := substitute(fault.action):
            return instead
        on_page = fault.action if isinstance(fault.action, Stuck | Stale | Empty) else None
        reply = self._api.answer(request, on_page)
        return replace(reply, delivery=delivery(fault.action))

    def uptime_s(self) -> float:
        """Seconds since the start, on the simulation's clock."""
        return self.clock() - self._started_s

    def refuses_connections(self) -> bool:
        """Whether a `Refuse` fault is in force now."""
        uptime_s = self.uptime_s()
        return any(
            isinstance(fault.action, Refuse)
            and (fault.between_s is None or fault.between_s[0] <= uptime_s < fault.between_s[1])
            for fault in self._faults.in_force().values()
        )

    def history(self, product: str) -> History:
        """The truth about a product, whatever faults and replaced rows say."""
        return self._market[product].history

    def newest_id(self, product: str) -> int:
        """The highest id that is out now (for a sparse product: the end of its id range)."""
        return self._market[product].newest_id()

    def grow(self, product: str, trades: int) -> None:
        """Put `trades` new ids on a product's tape."""
        self._market[product].grow(trades)

    def put_product(self, spec: ProductSpec) -> None:
        """List a product, or change how a listed one is answered for."""
        self._market.put(spec)

    def replace_rows(self, product: str, rows: Mapping[int, LiteralRow]) -> None:
        """Serve literal rows under these ids; `None` makes a hole."""
        self._market[product].replace_rows(rows)

    def serve_rows(self, product: str, rows: Mapping[int, LiteralRow]) -> None:
        """Serve these rows of a product and nothing else."""
        self._market[product].serve_rows(rows)

    def add_fault(self, fault: Fault) -> int:
        """Put a fault in force; returns its number."""
        return self._faults.add(fault)

    def remove_fault(self, number: int) -> None:
        """Lift one fault."""
        self._faults.remove(number)

    def clear_faults(self) -> None:
        """Lift every fault."""
        self._faults.clear()

    def faults(self) -> dict[int, Fault]:
        """The faults in force by number."""
        return self._faults.in_force()

    def stats(self, windows_s: Sequence[float] = (1.0,)) -> dict[str, Any]:
        """Counts of requests, statuses, products, faults; the fullest window of each length."""
        hits = {str(number): hits for number, hits in self._faults.hits().items()}
        return {"uptime_s": self.uptime_s(), **self._log.stats(windows_s), "fault_hits": hits}

    def arrivals(self) -> list[Arrival]:
        """The requests that arrived, oldest first."""
        return self._log.arrivals()

    def reset_log(self) -> None:
        """Forget the requests so far; faults, growth and limits stay as they are."""
        self._log.reset()
