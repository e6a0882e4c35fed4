"""What one run of a command of the log is asked to do, checked before anything is opened."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field, field_validator

from headrace.run.parameters import Form, Parameters
from headrace.sot.output import check_target
from headrace.sot.record import U32_MAX, U64_MAX
from headrace.sot.writing.options import MAX_SHARDS

SourceFormat = Literal["auto", "frames", "jsonl", "parquet"]
OutFormat = Literal["frames", "jsonl", "parquet"]
VerifyMode = Literal["full", "since", "sampled"]
MigrateAction = Literal["status", "begin", "write", "backfill", "compare", "switch", "back", "end"]

Symbol = Annotated[int, Field(ge=0, le=U32_MAX)]
Symbols = Annotated[
    tuple[Symbol, ...],
    Field(title="Symbols", description="Only these; empty for all.", examples=[[0, 7, 4096], []]),
    Form(list[Symbol], empty=[]),
]
Processes = Annotated[
    int,
    Field(
        ge=-1,
        le=MAX_SHARDS,
        title="Processes at once",
        description="Processes over which the work is spread; -1 chooses by the store.",
        examples=[-1, 2],
    ),
]
Heads = Annotated[
    bool,
    Field(
        title="Hold against saved heads",
        description="Hold the chains against the heads that writes have saved as a block, too.",
        examples=[True],
    ),
]


Store = Annotated[
    str,
    Field(
        min_length=1,
        title="Log",
        description="A folder, cql://HOST/KEYSPACE or block:NAME; empty for the configured one.",
        examples=["data/sot", "cql://10.0.0.1,10.0.0.2/sot", "block:ours"],
    ),
    Form(str, empty="", setting="sot"),
]


class SotRequest(Parameters):
    """What every command of the log is asked."""

    store: Store


class WriteRequest(SotRequest):
    """Put a stream into its chains; see `headrace.sot.writing.options` for what is left open."""

    source: Annotated[
        str,
        Field(
            min_length=1,
            title="Source",
            description="A file, a folder, s3://bucket/prefix, or - for standard input.",
            examples=["engine.sot", "s3://bucket/outputs", "-"],
        ),
        Form(argument=True),
    ]
    store: Store
    format: Annotated[
        SourceFormat,
        Field(
            title="Format",
            description="How the source is written; auto looks at how it begins.",
            examples=["auto", "frames"],
        ),
    ] = "auto"
    shards: Annotated[
        int,
        Field(
            ge=1,
            le=MAX_SHARDS,
            title="Shards",
            description="Writers; a symbol belongs to the shard of its id modulo this. May differ "
            "each time.",
            examples=[8],
        ),
    ] = 8
    processes: Processes = -1
    batch: Annotated[
        int,
        Field(
            ge=0,
            le=1_000_000,
            title="Records per commit",
            description="Records per commit at most; 0 for what the store takes.",
            examples=[0, 500],
        ),
    ] = 0
    chain: Annotated[
        bool,
        Field(
            title="Compute the hashes",
            description="Compute the hashes of a stream that has none.",
            examples=[False],
        ),
    ] = False
    first_seq: Annotated[
        int,
        Field(
            ge=0,
            le=U64_MAX,
            title="First sequence",
            description="Where new chains begin.",
            examples=[1],
        ),
        Form(Annotated[int, Field(ge=0)]),
    ] = 1
    verify: Annotated[
        bool,
        Field(
            title="Verify afterwards",
            description="Recompute what is new afterwards.",
            examples=[True],
        ),
    ] = False


class VerifyRequest(SotRequest):
    """Recompute what is stored."""

    store: Store
    mode: Annotated[
        VerifyMode,
        Field(
            title="How much",
            description="full recomputes everything, since what is new since the last time, "
            "sampled some.",
            examples=["full", "since"],
        ),
    ] = "full"
    symbols: Symbols = ()
    blocks: Annotated[
        int,
        Field(
            ge=1,
            le=100_000,
            title="Blocks per symbol",
            description="Blocks of each symbol that are looked at when sampled.",
            examples=[8],
        ),
    ] = 8
    processes: Processes = -1
    heads: Heads = True


class RecoverRequest(SotRequest):
    """Replay what is stored."""

    out: Annotated[
        str,
        Field(
            min_length=1,
            title="Output",
            description="A file that does not exist yet, or - for standard output.",
            examples=["replay.sot", "-"],
        ),
        Form(argument=True),
    ]
    store: Store
    format: Annotated[
        OutFormat,
        Field(
            title="Format", description="frames, jsonl or parquet.", examples=["frames", "jsonl"]
        ),
    ] = "frames"
    symbols: Symbols = ()
    past_damage: Annotated[
        bool,
        Field(
            title="Go on past damage",
            description="Go on with the other symbols behind the damage of one, instead of ending "
            "there.",
            examples=[False],
        ),
    ] = False
    heads: Heads = True

    @field_validator("out")
    @classmethod
    def _usable(cls, out: str) -> str:
        check_target(out)
        return out


class MigrateRequest(SotRequest):
    """Take a step of a migration; see `headrace.sot.migration`."""

    old: Annotated[
        str,
        Field(
            min_length=1,
            title="Unsharded log",
            description="The unsharded log, an SQLite file.",
            examples=["data/engine_output_log.sqlite"],
        ),
        Form(argument=True),
    ]
    store: Store
    action: Annotated[
        MigrateAction,
        Field(
            title="Step",
            description="status, begin (write to both), write (a source), backfill, compare, "
            "switch (read from the new one), back (read from the old one again) or end.",
            examples=["status", "backfill"],
        ),
    ] = "status"
    source: Annotated[
        str,
        Field(
            title="Source to write",
            description="For write - a file, a folder, s3://bucket/prefix or - with the engine's "
            "outputs.",
            examples=["engine.sot"],
        ),
    ] = ""
    batch: Annotated[
        int,
        Field(
            ge=1,
            le=100_000,
            title="Records in a commit",
            description="Records of a symbol per commit.",
            examples=[500],
        ),
    ] = 500
