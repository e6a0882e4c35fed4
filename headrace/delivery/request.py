"""What one run of the flow `keyed_requests` is asked to do."""

from __future__ import annotations

from typing import Annotated, Self

from pydantic import Field, field_validator, model_validator

from headrace.amounts import LONGEST_S
from headrace.pull.request import BLOCK_PREFIX
from headrace.run.parameters import Form, Parameters, about

_URL = r"^[hH][tT][tT][pP][sS]?://[^/?#@\s]+(/[^?#\s]*)?$"
_MOST_RATE = 10_000.0

NothingOr = Annotated[float, Field(ge=0, le=LONGEST_S)]


class SendRequest(Parameters):
    """Requests to be sent with the keys of one API: of a file, or made."""

    source: Annotated[
        str,
        about(
            "Requests",
            "A file of requests, a JSON object a line (path, method, query, body, ttl_s, "
            "idempotent); - for standard input; empty to make them.",
            "orders.jsonl",
        ),
        Form(argument=True),
    ] = ""
    base_url: Annotated[
        str, Field(pattern=_URL), about("API", "Address of the API.", "https://api.example.com")
    ]
    keys: Annotated[
        str,
        about(
            "API keys",
            "block:NAME of an API keys block; empty for those in HEADRACE_API_KEYS. Without any, "
            "requests are sent without a key.",
            "block:mine",
        ),
    ] = ""
    rate: Annotated[
        str, about("Rate", "What the API allows each key, such as 20/s or 10/s,100/m.", "20/s")
    ] = "10/s"
    queue: Annotated[
        str,
        Field(pattern=r"^[A-Za-z0-9][A-Za-z0-9_-]{0,63}$"),
        about(
            "Queue",
            "Name of the queue: its journal keeps what is not sent yet, and its graveyard.",
            "orders",
        ),
    ] = "default"
    count: Annotated[
        int, Field(ge=0), about("Count", "Make so many requests; 0: none, or as --seconds.", 1000)
    ] = 0
    seconds: Annotated[
        NothingOr, about("Seconds", "Make requests for so long; 0: none, or as --count.", 60)
    ] = 0.0
    offer: Annotated[
        float,
        Field(ge=0, le=_MOST_RATE),
        about("Offer", "Make so many requests a second; 0: as many as are taken.", 200),
    ] = 0.0
    path: Annotated[
        str,
        Field(pattern=r"^/[\x21-\x7e]*$"),
        about("Path", "Path of requests that are made.", "/api/request"),
    ] = "/api/request"
    ttl_s: Annotated[
        NothingOr,
        about(
            "Time to live",
            "Seconds after which a request must not be sent any more, unless its line says "
            "otherwise; 0: for ever.",
            1,
        ),
    ] = 0.0
    capacity: Annotated[
        int,
        Field(ge=1, le=100_000),
        about("Capacity", "Requests that wait; the producer waits when they are that many.", 500),
    ] = 500
    in_flight: Annotated[
        int,
        Field(ge=1, le=200),
        about("In flight", "Requests that wait for a permit or an answer at once.", 32),
    ] = 32
    tries: Annotated[
        int, Field(ge=1, le=5), about("Tries", "Attempts of one request, 5 at most.", 5)
    ] = 5
    allow_expired: Annotated[
        float,
        Field(ge=0, le=100),
        about("Allowed to expire", "So many percent may expire before the run is partial.", 1),
    ] = 0.0
    outage_limit_s: Annotated[
        NothingOr,
        about(
            "Outage limit",
            "End the run when the circuit breaker has been open for so many seconds; 0: wait.",
            600,
        ),
    ] = 0.0

    @field_validator("base_url")
    @classmethod
    def _base_url(cls, value: str) -> str:
        from headrace.wire.transport import check_base_url  # not for help

        return check_base_url(value)

    @field_validator("rate")
    @classmethod
    def _rate(cls, value: str) -> str:
        from headrace.quota.rates import parse_rates

        parse_rates(value)
        return value

    @model_validator(mode="after")
    def _consistent(self) -> Self:
        if self.source and (self.count or self.seconds or self.offer):
            raise ValueError("source excludes count, seconds and offer; leave one or the other out")
        if self.offer and not (self.count or self.seconds):
            raise ValueError("offer needs count or seconds")
        if self.keys and not self.keys.removeprefix(BLOCK_PREFIX).strip():
            raise ValueError("keys names no block")
        if self.keys and not self.keys.startswith(BLOCK_PREFIX):
            # Not repeated: it may be a key.
            raise ValueError("keys must be block:NAME; keys themselves stand in no parameter")
        return self

    @property
    def makes(self) -> bool:
        """Whether requests are made."""
        return bool(self.count or self.seconds)


def queue_lease(queue: str) -> str:
    """The lease of a queue: one run delivers it."""
    return f"requests/{queue}"
