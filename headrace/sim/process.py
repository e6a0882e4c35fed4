"""The simulated exchange in a process of its own: it shares no interpreter lock with a bench."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime
from typing import Any

from headrace.sim.catalogue import ProductSpec
from headrace.sim.child import ChildServer
from headrace.sim.faults import Fault, Subject, parse_fault
from headrace.sim.history import History
from headrace.sim.market import LiteralRow
from headrace.sim.settings import ExchangeSettings


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
            "headrace.sim",
            self.settings.model_dump_json(),
            parse=parse_fault,
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
