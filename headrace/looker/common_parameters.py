"""How a run reaches a Looker, and what of it is meant: parameters that several pipelines have."""

from __future__ import annotations

import os
from typing import Annotated, Any, Self

from pydantic import Field, field_validator, model_validator

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


MOST_WORKERS = 50


def default_workers() -> int:
    """Requests at once by default."""
    return min(os.cpu_count() or 1, 8)


class InFolders(LookerAccess):
    """A Looker, some folders of it or all of it, and how many requests at once."""

    folder_ids: Annotated[
        tuple[str, ...],
        about(
            "Folder ids",
            "Only dashboards and looks in these folders; empty for everything.",
            ["5", "7"],
        ),
        Form(list[str], empty=[], flags=("--folder-id",)),
    ] = ()
    recursive: Annotated[
        bool, about("And the folders below", "And in the folders below them.", True)
    ] = False
    workers: Annotated[
        int,
        Field(ge=1, le=MOST_WORKERS, default_factory=default_workers),
        about("Requests at once", "Requests at once.", 8),
    ]

    @field_validator("folder_ids", mode="before")
    @classmethod
    def _split_ids(cls, value: Any) -> tuple[str, ...]:
        return split_names(value)

    @model_validator(mode="after")
    def _below_which(self) -> Self:
        if self.recursive and not self.folder_ids:
            raise ValueError("recursive needs folder_ids: below which folders?")
        return self


def split_names(value: Any) -> tuple[str, ...]:
    """Names, each once, of texts in which commas join some of them."""
    texts = [value] if isinstance(value, str) else [str(each) for each in value]
    parts = [part.strip() for text in texts for part in text.split(",")]
    return tuple(dict.fromkeys(part for part in parts if part))
