"""What one extraction is asked to do: a frozen model, checked before anything is started."""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import Annotated, Any

from pydantic import BaseModel, ConfigDict, Field, ValidationError, field_validator, model_validator

from headrace.errors import ConfigurationError
from headrace.looker.client.connection import checked_looker_url
from headrace.looker.content import TYPES, content_of
from headrace.pull.request import BLOCK_PREFIX
from headrace.quota import parse_rates

MOST_WORKERS = 50

#: What is narrowed by folders, and what a narrowed run extracts unless types are named.
IN_FOLDERS = ("folder", "look", "dashboard")


def default_workers() -> int:
    """Requests at once unless somebody says otherwise."""
    return min(os.cpu_count() or 1, 8)


class ExtractRequest(BaseModel):
    """An extraction.

    Args:
        types: content types, each once, in the order of `headrace.looker.content.TYPES`.
        folder_ids: only what is in these folders (dashboards, looks, and the folders themselves).
        recursive: and in the folders below them.
        workers: requests at once.
        batch_size: items on a page.
        incremental: fetch only bodies that have changed, as far as listings tell.
        full: a session from the beginning, whatever an earlier one left unfinished.
        resume: go on with an unfinished session.
        vault: path of the vault.
        base_url: address of the Looker, block:NAME, or empty for the environment's.
        rate: what the Looker allows, or block:NAME.
        timeout_s: how long one request may take; 0 for the connection's own limits.
        outage_limit_s: how long to wait for a Looker that is down.
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    types: tuple[str, ...] = ()
    folder_ids: tuple[str, ...] = ()
    recursive: bool = False
    workers: Annotated[int, Field(ge=1, le=MOST_WORKERS)] = Field(default_factory=default_workers)
    batch_size: Annotated[int, Field(ge=1, le=5000)] = 100
    incremental: bool = False
    full: bool = False
    resume: bool = True
    vault: Annotated[str, Field(min_length=1)]
    base_url: str = ""
    rate: str = "10/s,100/m"
    timeout_s: Annotated[float, Field(ge=0)] = 0.0
    outage_limit_s: Annotated[float, Field(ge=0)] = 1800.0

    @field_validator("types", "folder_ids", mode="before")
    @classmethod
    def _split(cls, value: Any) -> tuple[str, ...]:
        texts = [value] if isinstance(value, str) else [str(each) for each in value]
        parts = [part.strip() for text in texts for part in text.split(",")]
        return tuple(dict.fromkeys(part for part in parts if part))

    @field_validator("types")
    @classmethod
    def _known(cls, types: tuple[str, ...]) -> tuple[str, ...]:
        singular = [_singular(name) for name in types]
        wanted = {content_of(name).type for name in singular}
        return tuple(name for name in TYPES if name in wanted)

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
        return checked_looker_url(value)

    @model_validator(mode="after")
    def _consistent(self) -> ExtractRequest:
        if self.recursive and not self.folder_ids:
            raise ValueError("recursive needs folder_ids: below which folders?")
        if self.full and self.incremental:
            raise ValueError("full and incremental exclude each other")
        return self

    @property
    def chosen(self) -> tuple[str, ...]:
        """The types to extract; without any named, all of them, or what lies in folders."""
        return self.types or (IN_FOLDERS if self.folder_ids else TYPES)

    @property
    def scope(self) -> Mapping[str, Any]:
        """What a session of the same kind has in common with this one, so that it can go on."""
        return {
            "types": list(self.chosen),
            "folder_ids": list(self.folder_ids),
            "recursive": self.recursive,
            "batch_size": self.batch_size,
            "incremental": self.incremental,
        }


def build_extract_request(**fields: Any) -> ExtractRequest:
    """A checked request.

    Raises:
        ConfigurationError: naming the first field that cannot be used, and why.
    """
    try:
        return ExtractRequest(**fields)
    except ValidationError as error:
        first = error.errors()[0]
        cause = (first.get("ctx") or {}).get("error")
        name = ".".join(str(part) for part in first["loc"][:1])
        reason = str(cause) if cause is not None else first["msg"]
        shown = f" (given: {repr(first.get('input'))[:80]})" if name else ""
        raise ConfigurationError(f"{name}: {reason}{shown}" if name else reason) from error


def _singular(name: str) -> str:
    """`dashboards` is what people write."""
    plural = name.removesuffix("s")
    return plural if name not in TYPES and plural in TYPES else name


__all__ = [
    "IN_FOLDERS",
    "MOST_WORKERS",
    "ExtractRequest",
    "build_extract_request",
    "default_workers",
]
