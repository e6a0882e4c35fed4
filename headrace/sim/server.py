"""The simulated exchange as a server: on a thread of this process, or as a child process."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from datetime import datetime
from typing import Any

from headrace.sim.catalogue import ProductSpec
from headrace.sim.faults import Fault, Subject
from headrace.sim.history import History
from headrace.sim.market import LiteralRow
from headrace.sim.process import ChildServer
from headrace.sim.serving import ThreadedServer
from headrace.sim.settings import ExchangeSettings
from headrace.sim.simulation import ExchangeSimulation


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
        super().__init__(
            "exchange",
            self.settings.model_dump_json(),
            fault_class=Fault,
            subject=Subject,
            cpu=cpu,
        )

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
