"""The simulated exchange as a server on a thread of this process."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from datetime import datetime
from typing import Any

from headrace.sim.catalogue import ProductSpec
from headrace.sim.control import Control
from headrace.sim.faults import Fault, parse_fault
from headrace.sim.history import History
from headrace.sim.market import LiteralRow
from headrace.sim.settings import ExchangeSettings
from headrace.sim.simulation import ExchangeSimulation
from headrace.sim.threaded import ThreadedServer


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
        super().__init__(
            "simulated exchange",
            Control(self.simulation),
            port=self.settings.port,
            parse=parse_fault,
        )

    def history(self, product: str) -> History:
        """The truth about a product."""
        return self.simulation.history(product)

    def newest_id(self, product: str) -> int:
        """The highest id that is out now."""
        return self.simulation.newest_id(product)

    def grow(self, product: str, trades: int) -> None:
        """Put `trades` new ids on a product's tape."""
        self.simulation.grow(product, trades)

    def put_product(self, spec: ProductSpec) -> None:
        """List a product, or change how a listed one is answered for."""
        self.simulation.put_product(spec)

    def replace_rows(self, product: str, rows: Mapping[int, LiteralRow]) -> None:
        """Serve literal rows under these ids; `None` makes a hole."""
        self.simulation.replace_rows(product, rows)

    def serve_rows(self, product: str, rows: Mapping[int, LiteralRow]) -> None:
        """Serve these rows of a product and nothing else."""
        self.simulation.serve_rows(product, rows)
