"""Parameters of the flows of the log, and the requests that they mean."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any

from flows.parameters import form_field
from headrace.settings import load_settings
from headrace.sot.requests import (
    Given,
    MigrateAction,
    OutFormat,
    SourceFormat,
    Symbol,
    VerifyMode,
    checked,
)

Source = Annotated[
    str,
    form_field("Source", min_length=1, examples=["engine.sot", "s3://bucket/outputs", "-"]),
]
StoreLocation = Annotated[
    str, form_field("Log", examples=["data/sot", "cql://10.0.0.1,10.0.0.2/sot", "block:ours"])
]
InFormat = Annotated[SourceFormat, form_field("Format", examples=["auto", "frames"])]
ReplayFormat = Annotated[OutFormat, form_field("Format", examples=["frames", "jsonl"])]
Shards = Annotated[int, form_field("Shards", ge=1, le=256, examples=[8])]
Processes = Annotated[int, form_field("Processes at once", ge=-1, le=256, examples=[-1, 2])]
Batch = Annotated[int, form_field("Records per commit", ge=0, le=1_000_000, examples=[0, 500])]
Chain = Annotated[bool, form_field("Compute the hashes", examples=[False])]
FirstSeq = Annotated[int, form_field("First sequence", ge=0, examples=[1])]
VerifyToo = Annotated[bool, form_field("Verify afterwards", examples=[True])]
Mode = Annotated[VerifyMode, form_field("How much", examples=["full", "since"])]
Symbols = Annotated[list[Symbol], form_field("Symbols", examples=[[0, 7, 4096], []])]
Blocks = Annotated[int, form_field("Blocks per symbol", ge=1, le=100_000, examples=[8])]
Heads = Annotated[bool, form_field("Hold against saved heads", examples=[True])]
Out = Annotated[str, form_field("Replay to", min_length=1, examples=["replay.sot"])]
PastDamage = Annotated[bool, form_field("Go on past damage", examples=[False])]
Old = Annotated[
    str, form_field("Unsharded log", min_length=1, examples=["data/engine_output_log.sqlite"])
]
Action = Annotated[MigrateAction, form_field("Step", examples=["status", "backfill"])]
MoreSource = Annotated[str, form_field("Source to write", examples=["engine.sot"])]
Rows = Annotated[int, form_field("Records in a commit", ge=1, le=100_000, examples=[500])]


def sot_request(kind: type[Given], parameters: Mapping[str, Any]) -> Given:
    """The request that the parameters of a flow mean; no store means that of the settings.

    Raises:
        ConfigurationError: naming the first parameter that cannot be used, and why.
    """
    fields = dict(parameters)
    fields["store"] = fields.get("store") or load_settings().sot
    return checked(kind, fields)
