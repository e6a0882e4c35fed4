"""How a run reaches a Looker: parameters that every pipeline which asks one has."""

from __future__ import annotations

from typing import Annotated, Any

from pydantic import Field, field_validator

from headrace.pull.request import BLOCK_PREFIX, RATE
from headrace.quota.config import OUTAGE_LIMIT_S
from headrace.quota.rates import parse_rates
from headrace.run.parameters import Form, Parameters, about


class LookerAccess(Parameters):
    """A Looker, what it allows, and how long it is waited for."""

    base_url: Annotated[
        str,
        about(
            "Looker",
            "Address of the Looker or block:NAME; empty for LOOKERSDK_BASE_URL.",
            "https://company.looker.com",
            "block:ours",
        ),
        Form(environment="LOOKERSDK_BASE_URL"),
    ] = ""
    rate: Annotated[
        str,
        about(
            "Rate",
            "What the Looker allows, such as 10/s,100/m, or block:NAME; none lifts it.",
            "10/s",
            "10/s,100/m",
            "block:signed",
        ),
        Form(RATE, empty="", setting="looker_rate", joined=True),
    ]
    timeout_s: Annotated[
        float,
        Field(ge=0),
        about(
            "Time limit of a request",
            "Seconds that one request may take; 0 for the connection's own limits.",
            0,
            120,
        ),
    ] = 0.0
    outage_limit_s: Annotated[
        float,
        Field(ge=0),
        about(
            "Patience in seconds",
            "Seconds to wait for a Looker that is down before the run fails.",
            1800,
            60,
        ),
    ] = OUTAGE_LIMIT_S

    @field_validator("rate")
    @classmethod
    def _rate(cls, value: str) -> str:
        if not value.startswith(BLOCK_PREFIX):
            parse_rates(value)
        return value

    @field_validator("base_url")
    @classmethod
    def _url(cls, value: str) -> str:
        if not value or value.startswith(BLOCK_PREFIX):
            return value
        from headrace.looker.client.connection import check_looker_url  # not for help

        return check_looker_url(value)


def split_names(value: Any) -> tuple[str, ...]:
    """Names, each once, of texts in which commas join some of them."""
    texts = [value] if isinstance(value, str) else [str(each) for each in value]
    parts = [part.strip() for text in texts for part in text.split(",")]
    return tuple(dict.fromkeys(part for part in parts if part))
