"""What one run is asked to do: a frozen model, checked as a whole before anything is started."""

from __future__ import annotations

import re
from datetime import UTC, datetime, timedelta
from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Field, ValidationError, field_validator, model_validator

from headrace.durations import LONGEST_S
from headrace.errors import ConfigurationError
from headrace.exchange.products import canonical_products
from headrace.exchange.times import parse_time
from headrace.exchange.transport import checked_base_url
from headrace.quota import parse_rates

MAX_IN_FLIGHT = 200

#: `lake`, `base_url` and `rate` may name saved configuration instead: `block:NAME`.
BLOCK_PREFIX = "block:"

Workers = Annotated[int, Field(ge=1, le=50)]
ChunkConcurrency = Annotated[int, Field(ge=0, le=50)]

_SPAN = re.compile(r"([0-9]+)([smhdw])")
#: Trades are younger than this, and moments stay within what a datetime can hold.
_LONGEST = timedelta(days=36_525)
_LAST_YEAR = 9998
_UNITS = {"s": "seconds", "m": "minutes", "h": "hours", "d": "days", "w": "weeks"}


class PullRequest(BaseModel):
    """A backfill or an ingest of some products.

    Args:
        products: canonical ids, each once.
        planner: `backfill` asks for everything in the range, `ingest` for what is new.
        from_id, to_id: inclusive id range; None leaves that end open.
        since, until, last: the same as times; resolved to ids by asking the exchange.
        full_refresh: fetch again what is stored already.
        dry_run: plan only.
        only_failed: only what the last run tried and did not get.
        pages_per_chunk: pages one chunk walks; 0 lets the plan decide.
        workers: products at once.
        chunk_concurrency: chunks at once per product; 0 derives it from the measured latency.
        lake: a folder, s3://bucket/prefix, or block:NAME.
        base_url: address of the exchange's API, or block:NAME.
        rate: what the exchange allows, or block:NAME.
        outage_limit_s: how long a run waits for an exchange that is down.
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    products: tuple[str, ...] = Field(min_length=1)
    planner: Literal["backfill", "ingest"] = "backfill"
    from_id: Annotated[int, Field(ge=1)] | None = None
    to_id: Annotated[int, Field(ge=1)] | None = None
    since: datetime | None = None
    until: datetime | None = None
    last: timedelta | None = None
    full_refresh: bool = False
    dry_run: bool = False
    only_failed: bool = False
    pages_per_chunk: Annotated[int, Field(ge=0, le=1000)] = 0
    workers: Workers = 3
    chunk_concurrency: ChunkConcurrency = 5
    lake: Annotated[str, Field(min_length=1)]
    base_url: str
    rate: str
    outage_limit_s: Annotated[float, Field(ge=0, le=LONGEST_S)] = 3600.0

    @field_validator("products", mode="before")
    @classmethod
    def _canonical(cls, products: Any) -> tuple[str, ...]:
        if isinstance(products, str):
            products = products.split(",")
        return tuple(canonical_products([str(product) for product in products]))

    @field_validator("since", "until", mode="before")
    @classmethod
    def _time(cls, value: Any) -> Any:
        return parse_moment(value) if isinstance(value, str) else value

    @field_validator("since", "until")
    @classmethod
    def _utc(cls, moment: datetime | None) -> datetime | None:
        if moment is None:
            return None
        if moment.year > _LAST_YEAR:
            raise ValueError("no trade is that late")
        return moment.replace(tzinfo=UTC) if moment.tzinfo is None else moment.astimezone(UTC)

    @field_validator("last", mode="before")
    @classmethod
    def _span(cls, value: Any) -> Any:
        return parse_span(value) if isinstance(value, str) else value

    @field_validator("last")
    @classmethod
    def _not_longer_than_history(cls, span: timedelta | None) -> timedelta | None:
        if span is not None and span > _LONGEST:
            raise ValueError("longer than any history")
        return span

    @field_validator("lake", "base_url", "rate")
    @classmethod
    def _named(cls, value: str) -> str:
        if value.startswith(BLOCK_PREFIX) and not value.removeprefix(BLOCK_PREFIX).strip():
            raise ValueError(f"{BLOCK_PREFIX} is not followed by the name of a block")
        return value

    @field_validator("base_url")
    @classmethod
    def _url(cls, value: str) -> str:
        return value if value.startswith(BLOCK_PREFIX) else checked_base_url(value)

    @field_validator("rate")
    @classmethod
    def _rate(cls, value: str) -> str:
        if not value.startswith(BLOCK_PREFIX):
            parse_rates(value)
        return value

    @model_validator(mode="after")
    def _consistent(self) -> PullRequest:
        if self.workers * self.chunk_concurrency > MAX_IN_FLIGHT:
            raise ValueError(
                f"workers {self.workers} x chunk_concurrency {self.chunk_concurrency} is "
                f"{self.workers * self.chunk_concurrency} requests in flight; "
                f"at most {MAX_IN_FLIGHT} are allowed"
            )
        if self.last is not None and self.since is not None:
            raise ValueError("last and since both set the start; give one of them")
        if self.from_id is not None and (self.since is not None or self.last is not None):
            raise ValueError("from_id and since/last both set the start; give one of them")
        if self.to_id is not None and self.until is not None:
            raise ValueError("to_id and until both set the end; give one of them")
        if self.from_id is not None and self.to_id is not None and self.to_id < self.from_id:
            raise ValueError(f"to_id {self.to_id} is below from_id {self.from_id}")
        if self.since is not None and self.until is not None and self.until < self.since:
            raise ValueError("until is before since")
        if self.full_refresh and self.only_failed:
            raise ValueError("full_refresh and only_failed exclude each other")
        return self


def build_request(**fields: Any) -> PullRequest:
    """A checked request.

    Raises:
        ConfigurationError: naming the first field that cannot be used, and why.
    """
    try:
        return PullRequest(**fields)
    except ValidationError as error:
        raise ConfigurationError(_first_problem(error)) from error


def parse_moment(text: str) -> datetime:
    """An ISO 8601 date or time; without a zone it is UTC, whatever the machine's zone.

    Raises:
        ValueError: if it is neither.
    """
    if re.fullmatch(r"\d{4}-\d\d-\d\d", text):
        text += "T00:00:00"
    if re.fullmatch(r"\d{4}-\d\d-\d\d[T ]\d\d:\d\d", text):
        text += ":00"
    if re.fullmatch(r"\d{4}-\d\d-\d\d[T ]\d\d:\d\d:\d\d(\.\d+)?", text):
        text += "Z"
    return parse_time(text).astimezone(UTC)


def parse_span(text: str) -> timedelta:
    """A length of time such as `90s`, `15m`, `1h`, `7d` or `2w`.

    Raises:
        ValueError: if it is none, or not positive.
    """
    match = _SPAN.fullmatch(text.strip())
    if match is None or int(match[1]) == 0:
        raise ValueError(f"{text!r} is no length of time; write for example 15m, 1h or 7d")
    try:
        return timedelta(**{_UNITS[match[2]]: int(match[1])})
    except OverflowError as error:
        raise ValueError(f"{text!r} is longer than any history") from error


def _first_problem(error: ValidationError) -> str:
    first = error.errors()[0]
    cause = (first.get("ctx") or {}).get("error")
    reason = str(cause) if cause is not None else first["msg"]
    name = ".".join(str(part) for part in first["loc"])
    if not name:
        return reason
    return f"{name}: {reason} (given: {_shown(first.get('input'))})"


def _shown(value: Any) -> str:
    text = repr(value)
    return text if len(text) <= 80 else text[:77] + "..."
