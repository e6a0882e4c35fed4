"""Faults of the simulated exchange: what they can do, and which requests they meet."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from headrace.sim.actions import KINDS, Action, Stale
from headrace.sim.scripted import ScriptedFault, read_fault

Endpoint = Literal["trades", "ticker", "product", "products", "any"]


@dataclass(frozen=True, slots=True)
class Subject:
    """What a request is about, as far as faults and statistics look at it."""

    endpoint: Endpoint
    product: str | None = None
    cursor: int | None = None


class Fault(ScriptedFault):
    """An action, and the requests it befalls. All conditions must hold.

    Args:
        action: what happens.
        product: only this product.
        endpoint: only this kind of request.
        cursor: only this value of `after`.
        first_page: only requests without a cursor (true) or with one (false).
    """

    action: Action
    product: str | None = None
    endpoint: Endpoint = "trades"
    cursor: int | None = None
    first_page: bool | None = None

    def concerns(self, subject: Subject) -> bool:
        """Whether a request is meant; an older first page is one for requests without a cursor."""
        if isinstance(self.action, Stale) and subject.cursor is not None:
            return False
        return (
            self.endpoint in ("any", subject.endpoint)
            and self.product in (None, subject.product)
            and self.cursor in (None, subject.cursor)
            and (self.first_page is None or self.first_page == (subject.cursor is None))
        )


def parse_fault(text: str) -> Fault:
    """Read a fault as written on the command line.

    Args:
        text: `KIND[,field=value…]`, for example `respond,status=503,probability=0.01` or
            `cut,how=close,product=BTC-USD,calls=2` or `html,between_s=10:20`.

    Raises:
        SpecError: naming the field that cannot be read.
    """
    return read_fault(text, Fault, KINDS)
