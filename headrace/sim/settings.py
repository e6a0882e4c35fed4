"""All that makes a simulated exchange, as one frozen value that fits into a JSON file."""

from __future__ import annotations

import time
from typing import Annotated, Any

from pydantic import AwareDatetime, BaseModel, Field, ValidationError

from headrace.sim.catalogue import (
    DEFAULT_CATALOGUE,
    ProductSpec,
    first_problem,
    or_text,
    parse_product,
)
from headrace.sim.exceptions import SpecError
from headrace.sim.faults import Fault, parse_fault
from headrace.sim.history import History
from headrace.sim.latency import Constant, Latency, parse_latency
from headrace.sim.limits import Limit
from headrace.sim.signing import ApiKey


class ExchangeSettings(BaseModel, frozen=True, extra="forbid"):
    """What the exchange lists, and how it behaves.

    Products, latency and faults may be given as the text that the command line takes.

    Args:
        products: the catalogue.
        seed: of trades, delays and chances.
        now_s: Unix seconds that the newest trades carry at the start; default: the present.
        latency: of every answer; none by default.
        limits: rate limits, all of which hold; none by default.
        faults: in force from the start.
        keys: when given, only requests signed with one of them are answered.
        key_limits: rate limits of each key, for requests that are signed with it.
        clock_ahead_s: by how much its clock is ahead of this machine's, for dates and signatures.
        port: on 127.0.0.1; 0 for any that is free.
    """

    products: tuple[Annotated[ProductSpec, or_text(parse_product)], ...] = DEFAULT_CATALOGUE
    seed: int = 0
    now_s: int = Field(default_factory=lambda: int(time.time()))
    latency: Annotated[Latency, or_text(parse_latency)] = Constant()
    limits: tuple[Limit, ...] = ()
    faults: tuple[Annotated[Fault, or_text(parse_fault)], ...] = ()
    keys: tuple[ApiKey, ...] = ()
    key_limits: tuple[Limit, ...] = ()
    clock_ahead_s: float = Field(0.0, allow_inf_nan=False)
    port: int = Field(0, ge=0, le=65_535)

    @classmethod
    def of(
        cls, *products: ProductSpec | str, now: AwareDatetime | None = None, **fields: Any
    ) -> ExchangeSettings:
        """Settings from what a caller writes.

        Raises:
            SpecError: naming the field that cannot be used.
        """
        if products:
            fields["products"] = products
        if now is not None:
            fields["now_s"] = int(now.timestamp())
        try:
            return cls.model_validate(fields)
        except ValidationError as error:
            raise SpecError("simulated exchange", str(fields), first_problem(error)) from error

    def history(self, product: str) -> History:
        """The truth about a product of these settings.

        Raises:
            SpecError: the product is not listed.
        """
        for spec in self.products:
            if spec.id == product:
                return History(spec, seed=self.seed, now_s=self.now_s)
        raise SpecError("product", product, "not listed by this simulated exchange")
