"""What one audit is asked to do."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import timedelta
from typing import Annotated, Any, Self

from pydantic import Field, field_validator, model_validator

from headrace.errors import ConfigurationError
from headrace.lake.store import Store
from headrace.products.choice import Chosen, StoredChoice, to_look_at
from headrace.products.listing import some
from headrace.pull.ledger import EXCHANGE
from headrace.pull.request import SPAN, ExchangeAccess, PullRequest, parse_span


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
        super().__init__(
            f"the lake {location} holds nothing of {', '.join(products)}",
            hint=f"It holds {some(known)}; headrace backfill fetches others",
        )
        self.products = tuple(products)
        self.location = location
        self.known = tuple(known)


class AuditRequest(StoredChoice, ExchangeAccess):
    """An audit of some products of a lake, or of all that it holds.

    Without products all that the lake holds are audited. `lag` is how long trades may still be
    missing; None: they may not. Pools, exchange and rate are those of the healing.
    """

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


def chosen_products(request: AuditRequest, store: Store, stored: Sequence[str]) -> Chosen:
    """The products to audit, of those that are `stored`.

    What a set names and nothing is stored of is audited against the exchange: it is missing.

    Raises:
        NothingToAudit: nothing is stored.
        NotInLake: something that was asked for by id, or is to be audited offline, is not stored.
        NothingChosen, UnknownSet, ListFileUnusable, ListDamaged: no product can be chosen.
    """
    if not stored:
        raise NothingToAudit(store.location)
    chosen = to_look_at(request, store, EXCHANGE, stored)
    unknown = [product for product in chosen.products if product not in stored]
    if unknown and (request.offline or not request.set):
        raise NotInLake(unknown, store.location, stored)
    return chosen
