"""What one check is asked, and the bounds that it holds a lake to."""

from __future__ import annotations

from datetime import timedelta
from typing import Annotated, Any, Self

from pydantic import Field, field_validator, model_validator

from headrace.products.choice import StoredChoice
from headrace.products.listing import checked_pattern, matching
from headrace.pull.request import SPAN, LakeAccess, parse_span
from headrace.run.parameters import Form, about

_NO_LIMIT = "none"
DEFAULT_AGE = "1h"


class CheckRequest(StoredChoice, LakeAccess):
    """A check of some products of a lake, or of all that it holds.

    `last` limits the rows that are looked at; names and ages are checked as ever. 0 lifts a bound.
    """

    last: Annotated[
        timedelta | None,
        about(
            "Last",
            "Look only at parts with trades of this length of time up to now, such as "
            "1d; empty for all.",
            "1d",
            "6h",
        ),
        SPAN,
    ] = None
    max_missing: Annotated[
        int,
        Field(ge=0),
        about(
            "Missing ids allowed",
            "Ids that may be missing between the first and the newest trade stored.",
            0,
            1000,
        ),
    ] = 0
    max_hole: Annotated[
        int,
        Field(ge=0),
        about(
            "Longest hole allowed",
            "Ids in a row that the exchange may not have; 0 for any number.",
            1_000_000,
            10_000,
        ),
    ] = 1_000_000
    max_age: Annotated[
        tuple[str, ...],
        about(
            "Oldest newest trade allowed",
            "How old the newest trade may be, such as 1h; of some products by id or "
            "pattern, such as BTC-USD=5m or *-BTC=none. Quiet products have longer.",
            ["1h"],
            ["1h", "BTC-USD=5m", "*-BTC=1d"],
        ),
        Form(list[str], empty=[]),
    ] = ()
    max_jump: Annotated[
        float,
        Field(ge=0),
        about(
            "Largest jump of the price",
            "Factor by which a price may differ from the one before it; 0 for any.",
            10.0,
            2.0,
        ),
    ] = 10.0
    max_back: Annotated[
        timedelta,
        about(
            "Largest step back in time",
            "By how much a trade's time may be before that of the id before it, or after now.",
            "1m",
            "10s",
        ),
        Form(Annotated[str, Field(pattern=r"^\s*0*[1-9][0-9]*[smhdw]\s*$")], empty="1m"),
    ] = timedelta(minutes=1)
    max_quarantined: Annotated[
        int,
        Field(ge=0),
        about(
            "Quarantined trades allowed",
            "Trades of a product that may be in the quarantine of the unified table.",
            0,
            10,
        ),
    ] = 0
    unified: Annotated[
        bool,
        about(
            "Compare the layers",
            "Compare the unified table, where there is one, with the raw layer.",
            True,
        ),
    ] = True
    workers: Annotated[
        int, Field(ge=1, le=50), about("Products at once", "Products at once.", 2, 5)
    ] = 2

    @field_validator("last", "max_back", mode="before")
    @classmethod
    def _span(cls, value: Any) -> Any:
        return parse_span(value) if isinstance(value, str) else value

    @field_validator("max_age")
    @classmethod
    def _ages(cls, texts: tuple[str, ...]) -> tuple[str, ...]:
        for text in texts:
            pattern, equals, age = text.rpartition("=")
            if equals:
                checked_pattern(pattern)
            _age(age)
        return texts

    @model_validator(mode="after")
    def _sane(self) -> Self:
        if 0 < self.max_jump <= 1:
            raise ValueError(f"max_jump {self.max_jump:g}: a factor is above 1; 0 lifts the bound")
        return self

    def age_allowed(self, product: str) -> tuple[timedelta | None, bool]:
        """How old a product's newest trade may be (None: any), and whether that names it itself.

        The last text that names a product, by its id or a pattern, counts; else the last that
        names none.
        """
        general: timedelta | None = _age(DEFAULT_AGE)
        own: list[timedelta | None] = []
        for text in self.max_age:
            pattern, equals, age = text.rpartition("=")
            if not equals:
                general = _age(age)
            elif matching([pattern], [product]):
                own.append(_age(age))
        return (own[-1], True) if own else (general, False)


def _age(text: str) -> timedelta | None:
    if text.strip().lower() == _NO_LIMIT:
        return None
    try:
        return parse_span(text)
    except ValueError as error:
        raise ValueError(f"{error}; {_NO_LIMIT} is no limit") from error
