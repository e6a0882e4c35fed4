"""From the flat parameters of `looker` to its checked request."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any

from pydantic import Field

from headrace.looker.content import TYPES
from headrace.looker.extract.request import (
    MOST_WORKERS,
    ExtractRequest,
    build_extract_request,
    default_workers,
)
from headrace.settings import load_settings

ContentTypes = Annotated[
    list[str], Field(title="Content types", examples=[["dashboard", "look"], list(TYPES)])
]
FolderIds = Annotated[list[str], Field(title="Folder ids", examples=[["5", "7"]])]
Requests = Annotated[int, Field(ge=1, le=MOST_WORKERS)]
BatchSize = Annotated[int, Field(ge=1, le=5000)]
VaultPath = Annotated[str, Field(examples=["data/looker.sqlite"])]
LookerUrl = Annotated[str, Field(examples=["https://company.looker.com"])]

DEFAULT_WORKERS = default_workers()


def looker_request(parameters: Mapping[str, Any]) -> ExtractRequest:
    """The request that the parameters mean, completed from the settings of this machine.

    Raises:
        ConfigurationError: naming the first parameter that cannot be used, and why.
    """
    settings = load_settings()
    fields = dict(parameters)
    fields["vault"] = fields.get("vault") or settings.looker_vault
    fields["rate"] = fields.get("rate") or settings.looker_rate
    return build_extract_request(**fields)
