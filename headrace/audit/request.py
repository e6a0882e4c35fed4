"""What one audit is asked to do."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import timedelta
from typing import Annotated, Any, Self

from pydantic import Field, field_validator, model_validator

from headrace.errors import ConfigurationError
from headrace.exchange.products import canonical_products
from headrace.pull.request import SPAN, ExchangeAccess, Product, PullRequest, parse_span
from headrace.run.parameters import Form

_SHOWN = 10


class NothingToAudit(ConfigurationError):
    """There is no trade of any product at the location; nothing was made there either."""

    def __init__(self, location: str) -> None:
        super().__init__(
            f"there are no trades to audit in {location}",
            hint="Look at --lake and HEADRACE_LAKE; headrace backfill puts trades there",
        )
        self.location = location


class NotInLake(ConfigurationError):
    """Products that the lake has no folder for.

    Args:
        products: what was asked for and is not there.
        location: the lake.
        known: what is there.
    """

    def __init__(self, products: Sequence[str], location: str, known: Sequence[str]) -> None:
        shown = ", ".join(known[:_SHOWN]) + (", ..." if len(known) > _SHOWN else "")
        super().__init__(
            f"the lake {location} holds nothing of {', '.join(products)}",
            hint=f"It holds {shown}; headrace backfill fetches others",
        )
        self.products = tuple(products)
        self.location = location
        self.known = tuple(known)


class AuditRequest(ExchangeAccess):
    """An audit of some products of a lake, or of all that it holds.

    `products` are canonical ids; empty for all in the lake. `lag` is how long trades may still be
    missing; None: they may not. Pools, exchange and rate are those of the healing.
    """

    products: Annotated[
        tuple[str, ...],
        Field(
            title="Products",
            description="Product ids in the lake; empty for all that it holds.",
            examples=[["BTC-USD", "ETH-USD"], []],
        ),
        Form(list[Product], empty=[], argument=True),
    ] = ()
    deep: Annotated[
        bool,
        Field(
            title="Read every row",
            description="Read every row too, and recompute order, uniqueness, counts and digests.",
            examples=[False],
        ),
    ] = False
    heal: Annotated[
        bool,
        Field(
            title="Repair and fetch",
            description="Repair, fetch what is missing, and audit again. Nothing is deleted that "
            "is not proven.",
            examples=[False],
        ),
    ] = False
    offline: Annotated[
        bool,
        Field(
            title="Without the exchange",
            description="Send no request; compare with the newest trade in the lake.",
            examples=[True],
        ),
    ] = False
    lag: Annotated[
        timedelta | None,
        Field(
            title="Lag allowed",
            description="Trades may be missing for so long, such as 15m; empty if they may not.",
            examples=["15m", "1h"],
        ),
        SPAN,
    ] = None

    @field_validator("products", mode="before")
    @classmethod
    def _canonical(cls, products: Any) -> tuple[str, ...]:
        return tuple(canonical_products([str(product) for product in products]))

    @field_validator("lag", mode="before")
    @classmethod
    def _span(cls, value: Any) -> Any:
        return parse_span(value) if isinstance(value, str) else value

    @model_validator(mode="after")
    def _consistent(self) -> Self:
        if self.heal and self.offline:
            raise ValueError(
                "heal and offline exclude each other: healing fetches what is missing. Leave one "
                "of them out"
            )
        if self.lag is not None and self.offline:
            raise ValueError(
                "lag and offline exclude each other: without the exchange no newer trade is "
                "known. Leave one of them out"
            )
        return self

    def pull_of(self, products: Sequence[str]) -> PullRequest:
        """The backfill of these products: it fetches what is missing and nothing else."""
        access = {name: getattr(self, name) for name in ExchangeAccess.model_fields}
        return PullRequest(products=tuple(products), **access)


def chosen_products(asked: Sequence[str], stored: Sequence[str], location: str) -> tuple[str, ...]:
    """The products to audit: those asked for, or all that are stored at `location`.

    Raises:
        NothingToAudit: nothing is stored.
        NotInLake: something that was asked for is not stored.
    """
    if not stored:
        raise NothingToAudit(location)
    unknown = [product for product in asked if product not in stored]
    if unknown:
        raise NotInLake(unknown, location, stored)
    return tuple(asked or stored)
