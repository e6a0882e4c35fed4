"""A simulated exchange: what a request meets on its way, what tests change, and its servers.

Its control endpoint (`headrace.sim.control`) has, beside what every simulation has:

| request | what it does |
|---|---|
| `GET settings` | seed, `now_s`, products and the rest, without keys |
| `GET newest?product=ID` | the highest id that is out |
| `POST grow` | `{"product", "trades"}` |
| `POST rows` | `{"product", "rows": {id: row, JSON text or null}, "only": false}` |
| `POST products` | a product spec |
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from dataclasses import replace
from datetime import datetime
from email.utils import formatdate
from typing import Any

from pydantic import BaseModel, Field

from headrace.sim.actions import Empty, Stale, Stuck, delivery, substitute
from headrace.sim.arrivals import Arrival
from headrace.sim.catalogue import ProductSpec
from headrace.sim.exceptions import UnknownCommand
from headrace.sim.exchange import ExchangeApi
from headrace.sim.faults import Fault, Subject
from headrace.sim.history import History
from headrace.sim.http import Reply, Request
from headrace.sim.limits import Gate
from headrace.sim.market import LiteralRow, Market
from headrace.sim.process import ChildServer
from headrace.sim.service import SimulatedService, Verdict
from headrace.sim.serving import ThreadedServer
from headrace.sim.settings import ExchangeSettings
from headrace.sim.signing import KEY_HEADER, SignatureCheck


class ExchangeSimulation(SimulatedService[Fault]):
    """State and behaviour of one simulated exchange.

    A request is judged in this order: the rate limits, its signature, the rate limits of its key,
    the scripted faults, the API.

    Args:
        settings: what it is.
        clock: seconds, for growth, limits, intervals and the log. Latency passes in real time.

    Attributes:
        market: what is served now.
    """

    fault_class = Fault

    def __init__(
        self, settings: ExchangeSettings, *, clock: Callable[[], float] = time.monotonic
    ) -> None:
        super().__init__(settings, clock)
        self.settings = settings
        self.market = Market(
            settings.products, seed=settings.seed, now_s=settings.now_s, clock=clock
        )
        self._api = ExchangeApi(self.market)
        self._signatures = SignatureCheck(settings.keys)
        self._of_key = {key.key: Gate(settings.key_limits) for key in settings.keys}

    def _subject(self, request: Request) -> Subject:
        return self._api.subject(request)

    def _judge(self, request: Request, arrival: Arrival, counted_s: float) -> Verdict:
        return Verdict(self._dated(self._reply(request, arrival, counted_s)))

    def _reply(self, request: Request, arrival: Arrival, counted_s: float) -> Reply:
        refusal = self._gate.refuse(counted_s, self._wall())
        refusal = refusal or self._signatures.refuse(request, self._wall())
        if refusal is None and self._of_key:
            gate = self._of_key[request.headers[KEY_HEADER]]
            refusal = gate.refuse(counted_s, self._wall())
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
        return time.time() + self.settings.clock_ahead_s

    def _dated(self, reply: Reply) -> Reply:
        """With the time at the exchange, as every HTTP server with a clock says it."""
        date = formatdate(self._wall(), usegmt=True)
        return replace(reply, headers={"Date": date, **reply.headers})

    def read_state(self, command: str, query: Mapping[str, str]) -> object:
        """See `SimulatedService.read_state`."""
        match command:
            case "settings":
                return self.settings.model_dump(mode="json", exclude={"keys"})
            case "newest":
                return {"newest": self.market[query.get("product", "")].newest_id()}
            case _:
                raise UnknownCommand

    def change_state(self, command: str, body: bytes) -> None:
        """See `SimulatedService.change_state`."""
        match command:
            case "grow":
                growth = _Growth.model_validate_json(body)
                self.market[growth.product].grow(growth.trades)
            case "rows":
                rows = _Rows.model_validate_json(body)
                tape = self.market[rows.product]
                (tape.serve_rows if rows.only else tape.replace_rows)(rows.rows)
            case "products":
                self.market.put(ProductSpec.model_validate_json(body))
            case _:
                raise UnknownCommand


class _Growth(BaseModel, extra="forbid"):
    """Body of `POST grow`."""

    product: str
    trades: int = Field(ge=0)


class _Rows(BaseModel, extra="forbid"):
    """Body of `POST rows`."""

    product: str
    rows: dict[int, dict[str, Any] | str | None]
    only: bool = False


class SimulatedExchange(ThreadedServer[Fault]):
    """A simulated exchange on a thread of this process; a context manager.

    Args:
        products: specs, or their text (`"BTC-USD:2500"`); none for the default catalogue.
        now: what the newest trades carry as their time at the start; default: the present.
        clock: seconds, for growth per second, limits, intervals and the log; a test may pass its
            own. Latency and dripping pass in real time all the same.
        settings: any other field of `ExchangeSettings`: seed, latency, limits, faults, keys, port.

    Raises:
        SpecError: a setting that cannot be used.
        PortInUseError: on entry, when the port is taken.
    """

    def __init__(
        self,
        *products: ProductSpec | str,
        now: datetime | None = None,
        clock: Callable[[], float] = time.monotonic,
        **settings: Any,
    ) -> None:
        self.settings = ExchangeSettings.of(*products, now=now, **settings)
        self.simulation = ExchangeSimulation(self.settings, clock=clock)
        self._market = self.simulation.market
        super().__init__("simulated exchange", self.simulation, port=self.settings.port)

    def history(self, product: str) -> History:
        """The truth about a product."""
        return self._market[product].history

    def newest_id(self, product: str) -> int:
        """The highest id that is out now."""
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


class SimulatedExchangeProcess(ChildServer[Fault]):
    """A simulated exchange as a child process; a context manager.

    The moves of `SimulatedExchange` travel over the control endpoint. The child ends with
    this process, however that ends.

    Args:
        products: specs, or their text; none for the default catalogue.
        now: what the newest trades carry as their time at the start; default: the present.
        cpu: pin the child to this core, where the system can.
        settings: any other field of `ExchangeSettings`.

    Raises:
        SpecError: a setting that cannot be used.
        ServerStartError: on entry, when the child does not come up.
    """

    def __init__(
        self,
        *products: ProductSpec | str,
        now: datetime | None = None,
        cpu: int | None = None,
        **settings: Any,
    ) -> None:
        self.settings = ExchangeSettings.of(*products, now=now, **settings)
        super().__init__("exchange", self.settings, Fault, Subject, cpu=cpu)

    def history(self, product: str) -> History:
        """The truth about a product, computed here."""
        return self.settings.history(product)

    def newest_id(self, product: str) -> int:
        """The highest id that is out now."""
        return int(self._control("GET", f"newest?product={product}")["newest"])

    def grow(self, product: str, trades: int) -> None:
        """Put `trades` new ids on a product's tape."""
        self._control("POST", "grow", {"product": product, "trades": trades})

    def put_product(self, spec: ProductSpec) -> None:
        """List a product, or change how a listed one is answered for."""
        self._control("POST", "products", spec.model_dump(mode="json"))

    def replace_rows(self, product: str, rows: Mapping[int, LiteralRow]) -> None:
        """Serve literal rows under these ids; `None` makes a hole."""
        self._control("POST", "rows", {"product": product, "rows": _plain(rows)})

    def serve_rows(self, product: str, rows: Mapping[int, LiteralRow]) -> None:
        """Serve these rows of a product and nothing else."""
        self._control("POST", "rows", {"product": product, "rows": _plain(rows), "only": True})


def _plain(rows: Mapping[int, LiteralRow]) -> dict[str, Any]:
    return {
        str(at): row if row is None or isinstance(row, str) else {**row} for at, row in rows.items()
    }
