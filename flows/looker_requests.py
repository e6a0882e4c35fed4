"""From the flat parameters of `looker` to its checked request."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any

from flows.parameters import form_field
from headrace.looker.content import TYPES
from headrace.looker.extract.request import (
    MOST_WORKERS,
    ExtractRequest,
    build_extract_request,
    default_workers,
)
from headrace.settings import load_settings

ContentTypes = Annotated[
    list[str], form_field("Content types", examples=[["dashboard", "look"], list(TYPES)])
]
FolderIds = Annotated[list[str], form_field("Folder ids", examples=[["5", "7"]])]
Recursive = Annotated[bool, form_field("And the folders below", examples=[True])]
Incremental = Annotated[bool, form_field("Only what has changed", examples=[True])]
Full = Annotated[bool, form_field("Begin anew", examples=[False])]
Resume = Annotated[bool, form_field("Go on where one broke off", examples=[True])]
Requests = Annotated[int, form_field("Requests at once", ge=1, le=MOST_WORKERS, examples=[8])]
BatchSize = Annotated[int, form_field("Items on a page", ge=1, le=5000, examples=[100, 500])]
VaultPath = Annotated[str, form_field("Vault", examples=["data/looker.sqlite"])]
LookerUrl = Annotated[
    str, form_field("Looker", examples=["https://company.looker.com", "block:ours"])
]
TimeLimit = Annotated[float, form_field("Time limit of a request", ge=0, examples=[0, 120])]

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
