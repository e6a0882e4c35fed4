"""Parameters of the flows of the log, and the requests that they mean."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any

from pydantic import Field

from headrace.settings import load_settings
from headrace.sot.requests import (
    Given,
    MigrateAction,
    OutFormat,
    SourceFormat,
    VerifyMode,
    checked,
)

Source = Annotated[
    str, Field(min_length=1, examples=["engine.sot", "s3://bucket/outputs", "data/outputs"])
]
StoreLocation = Annotated[str, Field(examples=["data/sot", "cql://10.0.0.1,10.0.0.2/sot"])]
Shards = Annotated[int, Field(ge=1, le=256)]
Processes = Annotated[int, Field(ge=-1, le=256)]
Batch = Annotated[int, Field(ge=0, le=1_000_000)]
FirstSeq = Annotated[int, Field(ge=0)]
Symbols = Annotated[list[int], Field(title="Symbols", examples=[[0, 7, 4096]])]
Blocks = Annotated[int, Field(ge=1, le=100_000)]
Out = Annotated[str, Field(min_length=1, examples=["replay.sot"])]
Old = Annotated[str, Field(min_length=1, examples=["old/engine_output_log.sqlite"])]
Rows = Annotated[int, Field(ge=1, le=100_000)]

__all__ = ["MigrateAction", "OutFormat", "SourceFormat", "VerifyMode", "sot_request"]


def sot_request(kind: type[Given], parameters: Mapping[str, Any]) -> Given:
    """The request that the parameters of a flow mean; no store means that of the settings.

    Raises:
        ConfigurationError: naming the first parameter that cannot be used, and why.
    """
    fields = dict(parameters)
    fields["store"] = fields.get("store") or load_settings().sot
    return checked(kind, fields)
