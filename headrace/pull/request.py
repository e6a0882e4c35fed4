"""What one run is asked to do: a frozen model, checked as a whole before anything is started."""

from __future__ import annotations

import re
from datetime import UTC, datetime, timedelta
from typing import Annotated, Any, ClassVar, Literal, Self

from pydantic import Field, field_validator, model_validator

from headrace.amounts import LONGEST_S
from headrace.exchange.times import parse_time
from headrace.products.choice import ProductChoice
from headrace.quota.config import OUTAGE_LIMIT_S
from headrace.quota.rates import parse_rates
from headrace.run.parameters import Form, Parameters, about

MAX_IN_FLIGHT = 200

#: `lake`, `base_url` and `rate` may name saved configuration instead: `block:NAME`.
BLOCK_PREFIX = "block:"

_SPAN = re.compile(r"([0-9]+)([smhdw])")
#: Trades are younger than this, and moments stay within what a datetime can hold.
_LONGEST = timedelta(days=36_525)
_LAST_YEAR = 9998
_UNITS = {"s": "seconds", "m": "minutes", "h": "hours", "d": "days", "w": "weeks"}


def _text(pattern: str) -> Any:
    """A text of a form that is empty, or matches.

    What a form can refuse it refuses, before there is a run. A pattern may be more generous than
    the check of the request, never stricter.
    """
    return Annotated[str, Field(pattern=rf"^$|{pattern}")]


_MOMENT = Form(
    _text(r"^\d{4}-\d\d-\d\d([T ]\d\d:\d\d(:\d\d(\.\d+)?(Z|[+-]\d\d:?(\d\d)?)?)?)?$"), empty=""
)
_MOMENTS = ["2024-01-01", "2024-01-01T12:00:00Z"]
_RATE = r"\s*\d+\s*/\s*\d*\s*[A-Za-z]+\s*"
SPAN = Form(_text(r"^\s*0*[1-9][0-9]*[smhdw]\s*$"), empty="")
RATE = _text(rf"^{_RATE}(,{_RATE})*$|^\s*[nN][oO][nN][eE]\s*$|^block:.*\S")


class LakeAccess(Parameters):
    """What every run needs that works on a lake."""

    lake: Annotated[
        str,
        Field(min_length=1),
        about(
            "Lake",
            "A folder, s3://bucket/prefix or block:NAME; empty for the configured one.",
            "data/lake",
            "s3://bucket/trades",
            "block:ours",
        ),
        Form(str, empty="", setting="lake"),
    ]

    @field_validator("lake", "base_url", "rate", check_fields=False)
    @classmethod
    def _named(cls, value: str) -> str:
        if value.startswith(BLOCK_PREFIX) and not value.removeprefix(BLOCK_PREFIX).strip():
            raise ValueError(f"{BLOCK_PREFIX} is not followed by the name of a block")
        return value


class PagedLake(LakeAccess):
    """What a run needs that may write the page of its lake at its end."""

    report: Annotated[
        str,
        about(
            "Page of the lake",
            "Afterwards write the lake's page to this file, as headrace report does; "
            "empty for the configured one, or none.",
            "/srv/www/lake.html",
        ),
        Form(str, empty="", setting="report"),
    ]


class ExchangeAccess(LakeAccess):
    """What every run needs that talks to an exchange and to a lake."""

    workers: Annotated[
        int, Field(ge=1, le=50), about("Products at once", "Products at once.", 3, 5)
    ] = 3
    chunk_concurrency: Annotated[
        int,
        Field(ge=0, le=50),
        about(
            "Chunks at once per product",
            "Chunks at once per product; 0 chooses by the measured latency.",
            0,
            12,
        ),
    ] = 5
    base_url: Annotated[
        str,
        about(
            "Exchange",
            "Address of the exchange or block:NAME; empty for the configured one.",
            "https://api.exchange.coinbase.com",
            "block:mine",
        ),
        Form(
            _text(r"^[hH][tT][tT][pP][sS]?://[^/?#@\s]+(/[^?#\s]*)?$|^block:.*\S"),
            empty="",
            setting="coinbase_url",
        ),
    ]
    rate: Annotated[
        str,
        about(
            "Rate",
            "What the exchange allows, such as 10/s or 10/s,100/m, or block:NAME; none lifts it.",
            "10/s",
            "10/s,100/m",
            "block:signed",
        ),
        Form(RATE, empty="", setting="rate", joined=True),
    ]
    outage_limit_s: Annotated[
        float,
        Field(ge=0, le=LONGEST_S),
        about(
            "Patience in seconds",
            "Seconds to wait for an exchange that is down before the run fails.",
            1800,
            60,
        ),
    ] = OUTAGE_LIMIT_S

    @field_validator("base_url")
    @classmethod
    def _url(cls, value: str) -> str:
        from headrace.wire.transport import check_base_url  # not for help

        return value if value.startswith(BLOCK_PREFIX) else check_base_url(value)

    @field_validator("rate")
    @classmethod
    def _rate(cls, value: str) -> str:
        if not value.startswith(BLOCK_PREFIX):
            parse_rates(value)
        return value

    @model_validator(mode="after")
    def _few_in_flight(self) -> Self:
        in_flight = self.workers * self.chunk_concurrency
        if in_flight > MAX_IN_FLIGHT:
            raise ValueError(
                f"workers {self.workers} x chunk_concurrency {self.chunk_concurrency} is "
                f"{in_flight} requests in flight; at most {MAX_IN_FLIGHT} are allowed"
            )
        return self


class PullRequest(ProductChoice, PagedLake, ExchangeAccess):
    """A backfill of some products: everything in a range of ids or of times.

    `planner` says which of the two pulls it is: `backfill` asks for everything in the range,
    `ingest` for what is new. Id ranges are inclusive; `since`, `until` and `last` become ids by
    asking the exchange. None leaves an end open.
    """

    internal: ClassVar[frozenset[str]] = frozenset({"planner", "first_ingest_hours"})

    planner: Literal["backfill", "ingest"] = "backfill"
    from_id: Annotated[
        int | None,
        Field(ge=1),
        about(
            "From trade id", "First trade id wanted; 0 means from the beginning.", 1, 900_000_000
        ),
        Form(Annotated[int, Field(ge=0)], empty=0),
    ] = None
    to_id: Annotated[
        int | None,
        Field(ge=1),
        about("To trade id", "Last trade id wanted; 0 means up to the newest.", 0, 900_999_999),
        Form(Annotated[int, Field(ge=0)], empty=0),
    ] = None
    since: Annotated[
        datetime | None,
        about(
            "Since",
            "First time wanted (ISO 8601; UTC unless it has an offset); empty for no limit.",
            *_MOMENTS,
        ),
        _MOMENT,
    ] = None
    until: Annotated[
        datetime | None, about("Until", "Last time wanted; empty for no limit.", *_MOMENTS), _MOMENT
    ] = None
    last: Annotated[
        timedelta | None,
        about(
            "Last",
            "Only this length of time up to now, such as 1h or 7d; empty for no limit.",
            "1h",
            "7d",
        ),
        SPAN,
    ] = None
    full_refresh: Annotated[
        bool, about("Fetch again what is stored", "Fetch again what is stored already.", False)
    ] = False
    dry_run: Annotated[
        bool, about("Plan only", "Plan only - pages, requests, time at the quota, bytes.", True)
    ] = False
    transform: Annotated[
        bool,
        about(
            "Bring the unified table up to date",
            "Afterwards bring the unified table up to date, as headrace transform does.",
            True,
        ),
    ] = False
    check: Annotated[
        bool,
        about(
            "Check what was stored",
            "Afterwards check what was stored, as headrace check does.",
            True,
        ),
    ] = False
    spread: Annotated[
        int,
        Field(ge=1, le=50),
        about(
            "Runs to spread it over",
            "Child runs that share the work, on whatever runs deployments; 1 does it here.",
            1,
            4,
        ),
    ] = 1
    only_failed: Annotated[
        bool,
        about("Only what failed last time", "Only the ranges that failed in the last run.", False),
    ] = False
    pages_per_chunk: Annotated[
        int,
        Field(ge=0, le=1000),
        about(
            "Pages per chunk", "Pages of 1,000 trades that one chunk task walks; 0 chooses.", 0, 16
        ),
    ] = 0

    first_ingest_hours: Annotated[
        int,
        Field(ge=0, le=876_600),
        about(
            "First ingest, in hours",
            "Hours to fetch of a product that the lake does not hold yet; 0 for its whole history.",
            24,
            168,
        ),
    ] = 24

    @property
    def is_range(self) -> bool:
        """Whether it is a range of a spread run, which notes what all of them store."""
        return False

    @property
    def work(self) -> str:
        """What the run does to a product, by which its lease on it is named."""
        return self.planner

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

    @model_validator(mode="after")
    def _consistent(self) -> PullRequest:
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
        if self.full_refresh and self.spread > 1:
            raise ValueError("full_refresh works in one run; leave spread out")
        return self


class IngestRequest(PullRequest):
    """An ingest of some products: what is new since the last run, without a range."""

    internal: ClassVar[frozenset[str]] = frozenset(
        {"planner", "from_id", "to_id", "since", "until", "last", "full_refresh", "only_failed"}
    )

    planner: Literal["ingest"] = "ingest"


def parse_moment(text: str) -> datetime:
    """An ISO 8601 date or time; without a zone it is UTC, in every zone of the machine.

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
        raise ValueError(f"{text!r} is not a length of time; write for example 15m, 1h or 7d")
    try:
        return timedelta(**{_UNITS[match[2]]: int(match[1])})
    except OverflowError as error:
        raise ValueError(f"{text!r} is longer than any history") from error
