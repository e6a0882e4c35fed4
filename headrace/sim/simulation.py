"""A running exchange without its sockets: what a request meets on its way, and what tests turn."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from dataclasses import replace
from email.utils import formatdate

from headrace.sim.actions import Empty, Stale, Stuck, delivery, substitute
from headrace.sim.arrivals import Arrival
from headrace.sim.catalogue import ProductSpec
from headrace.sim.exchange import ExchangeApi
from headrace.sim.faults import Fault, Subject
from headrace.sim.history import History
from headrace.sim.http import Reply, Request
from headrace.sim.market import LiteralRow, Market
from headrace.sim.service import SimulatedService, Verdict
from headrace.sim.settings import ExchangeSettings
from headrace.sim.signing import Doorkeeper


class ExchangeSimulation(SimulatedService[Fault]):
    """State and behaviour of one simulated exchange.

    A request is judged in this order: the rate limits, its signature, the scripted faults, the API.

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
        super().__init__(settings, clock)
        self.settings = settings
        self._our_wall = wall
        self._market = Market(
            settings.products, seed=settings.seed, now_s=settings.now_s, clock=clock
        )
        self._api = ExchangeApi(self._market)
        self._doorkeeper = Doorkeeper(settings.keys)

    def _subject(self, request: Request) -> Subject:
        return self._api.subject(request)

    def _judge(self, request: Request, arrival: Arrival, counted_s: float) -> Verdict:
        return Verdict(self._dated(self._reply(request, arrival, counted_s)))

    def _reply(self, request: Request, arrival: Arrival, counted_s: float) -> Reply:
        refusal = self._gate.refuse(counted_s, self._wall())
        refusal = refusal or self._doorkeeper.refuse(request, self._wall())
        if refusal:
            return refusal
        struck = self._faults.strike(self._subject(request), self.uptime_s())
        if struck is None:
            return self._api.answer(request)
        arrival.fault, fault = struck
        if instead := substitute(fault.action):
            return instead
        on_page = fault.action if isinstance(fault.action, Stuck | Stale | Empty) else None
        reply = self._api.answer(request, on_page)
        return replace(reply, delivery=delivery(fault.action))

    def _wall(self) -> float:
        """The exchange's clock, which need not agree with this machine's."""
        return self._our_wall() + self.settings.clock_ahead_s

    def _dated(self, reply: Reply) -> Reply:
        """With the time at the exchange, as every HTTP server with a clock says it."""
        date = formatdate(self._wall(), usegmt=True)
        return replace(reply, headers={"Date": date, **reply.headers})

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
