"""What the simulated exchange lists: product specs, how to write one, a default catalogue."""

from __future__ import annotations

import re
from collections.abc import Callable
from decimal import Decimal
from typing import Any, Literal

from pydantic import BaseModel, BeforeValidator, Field, ValidationError, model_validator

from headrace.sim.exceptions import SpecError

#: How a delisted product answers for its trades: an empty list, "no such product" (404), or
#: "not a valid product" (400). Clients of the real exchange have met all three.
Listing = Literal["online", "delisted", "unknown", "invalid"]

_PRODUCT_ID = re.compile(r"[A-Z0-9]{1,24}-[A-Z0-9]{1,24}")


class ProductSpec(BaseModel, frozen=True, extra="forbid"):
    """One product and the shape of its history. Its rows follow from (seed, spec, id) alone.

    Args:
        id: `BASE-QUOTE`, for example `BTC-USD`.
        trades: how many ids the history spans at the start, `first_id` to
            `first_id + trades - 1`. With a density below 1 not each of them is a trade.
        first_id: the lowest id.
        density: share of ids that exist, inside blocks that have any.
        gaps: share of spans of 3,000 ids that hold nothing: holes of more than a page.
        price: around what price it trades; the scale of its price strings follows.
        trades_per_s: ids per second of history, so that times can be searched. The default is
            10, or `growth_per_s` where the product grows.
        growth_per_s: new ids per second of the server's clock.
        growth_per_request: new ids after each answered request for its trades.
        listing: `online`, or how it answers now that it is gone.
    """

    id: str
    trades: int = Field(10_000, ge=0, lt=1 << 62)
    first_id: int = Field(1, ge=1, lt=1 << 62)
    density: float = Field(1.0, ge=0.002, le=1.0)
    gaps: float = Field(0.0, ge=0.0, le=0.9)
    price: Decimal = Field(Decimal(100), ge=Decimal("1E-8"), le=Decimal(10_000_000))
    trades_per_s: float = Field(10.0, gt=0.0, le=1000.0)
    growth_per_s: float = Field(0.0, ge=0.0, le=1000.0)
    growth_per_request: int = Field(0, ge=0, le=1_000_000)
    listing: Listing = "online"

    @model_validator(mode="before")
    @classmethod
    def _grow_in_real_time(cls, data: object) -> object:
        """Let new trades carry the time at which they appear, by default."""
        if isinstance(data, dict) and float(data.get("growth_per_s", 0) or 0) > 0:
            return {"trades_per_s": data["growth_per_s"], **data}
        return data

    @model_validator(mode="after")
    def _check(self) -> ProductSpec:
        if not _PRODUCT_ID.fullmatch(self.id):
            raise ValueError("a product id looks like BTC-USD")
        years = self.trades / self.trades_per_s / 31_557_600
        if years > 50:
            raise ValueError(f"the history would span {years:.0f} years; raise trades_per_s")
        return self

    @property
    def last_id(self) -> int:
        """The newest id at the start; `first_id - 1` for a product without trades."""
        return self.first_id + self.trades - 1

    @property
    def base(self) -> str:
        """What is traded."""
        return self.id.partition("-")[0]

    @property
    def quote(self) -> str:
        """What it is paid in."""
        return self.id.partition("-")[2]


def parse_product(text: str) -> ProductSpec:
    """Read a product as written on the command line.

    Args:
        text: `ID[:TRADES][,field=value…]`, for example `DOGE-USD:5000,density=0.3,price=0.07`.

    Raises:
        SpecError: naming the field that cannot be read.
    """
    head, *settings = text.split(",")
    product, _, trades = head.partition(":")
    fields: dict[str, str] = {"id": product}
    if trades:
        fields["trades"] = trades
    for setting in settings:
        name, equals, value = setting.partition("=")
        if not equals:
            raise SpecError("product", text, f"{setting!r} is not field=value")
        fields[name.strip()] = value.strip()
    try:
        return ProductSpec.model_validate(fields)
    except ValidationError as error:
        raise SpecError(
            "product", text, first_problem(error), hint=f"Fields: {', '.join(_FIELDS)}"
        ) from error


def or_text(parse: Callable[[str], Any]) -> BeforeValidator:
    """Let a field of settings be given as text, too, which `parse` reads."""
    return BeforeValidator(lambda value: parse(value) if isinstance(value, str) else value)


def first_problem(error: ValidationError) -> str:
    """The first complaint of a validation, in one line."""
    problem = error.errors()[0]
    where = ".".join(str(part) for part in problem["loc"])
    said = problem["msg"].removeprefix("Value error, ")
    return f"{where}: {said}" if where else said


_FIELDS = tuple(ProductSpec.model_fields)

#: What a simulated exchange lists by default: one product of each kind.
DEFAULT_CATALOGUE = (
    ProductSpec(id="BTC-USD", trades=300_000, price=Decimal(60_000)),
    ProductSpec(id="ETH-USD", trades=25_300, price=Decimal(2_500), trades_per_s=5),
    ProductSpec(id="DOGE-USD", trades=60_000, density=0.3, gaps=0.2, price=Decimal("0.072")),
    ProductSpec(id="LINK-EUR", trades=4_266, first_id=734, price=Decimal("13.4"), trades_per_s=1),
    ProductSpec(id="RARE-GBP", trades=640, price=Decimal("5.43"), trades_per_s=0.01),
    ProductSpec(id="NEW-USD", trades=0),
    ProductSpec(id="LIVE-USD", trades=10_000, growth_per_s=5),
    ProductSpec(id="OLD-USD", trades=5_000, listing="delisted"),
    ProductSpec(id="LONG-USD", trades=1_000_000_000, price=Decimal(60_000)),
)
