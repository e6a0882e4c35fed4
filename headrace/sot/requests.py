"""What one run of a command of the log is asked to do, checked before anything is opened."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field, field_validator

from headrace.run.parameters import Form, Parameters, about
from headrace.sot.output import check_target
from headrace.sot.record import U32_MAX, U64_MAX
from headrace.sot.writing.options import MAX_SHARDS

SourceFormat = Literal["auto", "frames", "jsonl", "parquet"]
OutFormat = Literal["frames", "jsonl", "parquet"]
ReadFormat = Literal["jsonl", "frames"]
VerifyMode = Literal["full", "since", "sampled"]
MigrateAction = Literal["status", "begin", "write", "backfill", "compare", "switch", "back", "end"]

Symbol = Annotated[int, Field(ge=0, le=U32_MAX)]
Symbols = Annotated[
    tuple[Symbol, ...],
    about("Symbols", "Only these; empty for all.", [0, 7, 4096], []),
    Form(list[Symbol], empty=[]),
]
Processes = Annotated[
    int,
    Field(ge=-1, le=MAX_SHARDS),
    about(
        "Processes at once",
        "Processes over which the work is spread; -1 chooses by the store.",
        -1,
        2,
    ),
]
Heads = Annotated[
    bool,
    about(
        "Hold against saved heads",
        "Hold the chains against the heads that writes have saved as a block, too.",
        True,
    ),
]


Store = Annotated[
    str,
    Field(min_length=1),
    about(
        "Log",
        "A folder, cql://HOST/KEYSPACE or block:NAME; empty for the configured one.",
        "data/sot",
        "cql://10.0.0.1,10.0.0.2/sot",
        "block:ours",
    ),
    Form(str, empty="", setting="sot"),
]


Anchors = Annotated[
    str,
    about(
        "Anchors",
        "Files, git:FOLDER or s3://bucket/prefix, joined by commas; empty for the configured ones.",
        "anchors.jsonl",
        "git:/srv/anchors,s3://worm/headrace",
    ),
    Form(str, empty="", environment="HEADRACE_ANCHORS", joined=True),
]
Key = Annotated[
    str,
    about(
        "Signing key",
        "What signs heads, and says whose are trusted - a file or block:NAME; empty for the "
        "configured one.",
        "block:ours",
    ),
    Form(str, empty="", environment="HEADRACE_SIGNING_KEY"),
]
TsaCa = Annotated[
    str,
    about(
        "Authorities' certificates",
        "PEM file with certificates of time-stamp authorities; empty for the configured one.",
        "tsa.pem",
    ),
    Form(str, empty="", environment="HEADRACE_TSA_CA"),
]


class SotRequest(Parameters):
    """What every command of the log is asked."""

    store: Store


class WriteRequest(SotRequest):
    """Put a stream into its chains; see `headrace.sot.writing.options` for what is left open."""

    source: Annotated[
        str,
        Field(min_length=1),
        about(
            "Source",
            "A file, a folder, s3://bucket/prefix, or - for standard input.",
            "engine.sot",
            "s3://bucket/outputs",
            "-",
        ),
        Form(argument=True),
    ]
    store: Store
    format: Annotated[
        SourceFormat,
        about(
            "Format", "How the source is written; auto looks at how it begins.", "auto", "frames"
        ),
    ] = "auto"
    shards: Annotated[
        int,
        Field(ge=1, le=MAX_SHARDS),
        about(
            "Shards",
            "Writers; a symbol belongs to the shard of its id modulo this. May differ each time.",
            8,
        ),
    ] = 8
    processes: Processes = -1
    batch: Annotated[
        int,
        Field(ge=0, le=1_000_000),
        about(
            "Records per commit", "Records per commit at most; 0 for what the store takes.", 0, 500
        ),
    ] = 0
    chain: Annotated[
        bool, about("Compute the hashes", "Compute the hashes of a stream that has none.", False)
    ] = False
    first_seq: Annotated[
        int,
        Field(ge=0, le=U64_MAX),
        about("First sequence", "Where new chains begin.", 1),
        Form(Annotated[int, Field(ge=0)]),
    ] = 1
    verify: Annotated[
        bool, about("Verify afterwards", "Recompute what is new afterwards.", True)
    ] = False


class VerifyRequest(SotRequest):
    """Recompute what is stored."""

    store: Store
    mode: Annotated[
        VerifyMode,
        about(
            "How much",
            "full recomputes everything, since what is new since the last time, sampled some.",
            "full",
            "since",
        ),
    ] = "full"
    symbols: Symbols = ()
    blocks: Annotated[
        int,
        Field(ge=1, le=100_000),
        about("Blocks per symbol", "Blocks of each symbol that are looked at when sampled.", 8),
    ] = 8
    processes: Processes = -1
    heads: Heads = True
    anchors: Anchors = ""
    key: Key = ""
    trust: Annotated[
        str,
        Field(pattern=r"^([0-9a-f]{32})?$"),
        about(
            "First trusted key",
            "Id of a key; heads count that it or a successor has signed. Empty for all keys of "
            "the list.",
            "21fe31dfa154a261626bf854046fd227",
        ),
        Form(str, empty=""),
    ] = ""
    tsa_ca: TsaCa = ""


class AnchorRequest(SotRequest):
    """Sign where the log ends, and put that where its writer cannot rewrite it."""

    store: Store
    anchors: Anchors = ""
    key: Key = ""
    tsa: Annotated[
        str,
        about(
            "Time-stamp authority",
            "Address of a server of RFC 3161 that stamps the head; empty for the configured one.",
            "http://timestamp.example.com",
        ),
        Form(str, empty="", environment="HEADRACE_TSA"),
    ] = ""
    tsa_ca: TsaCa = ""


class RecoverRequest(SotRequest):
    """Replay what is stored."""

    out: Annotated[
        str,
        Field(min_length=1),
        about(
            "Output", "A file that does not exist yet, or - for standard output.", "replay.sot", "-"
        ),
        Form(argument=True),
    ]
    store: Store
    format: Annotated[
        OutFormat, about("Format", "frames, jsonl or parquet.", "frames", "jsonl")
    ] = "frames"
    symbols: Symbols = ()
    past_damage: Annotated[
        bool,
        about(
            "Go on past damage",
            "Go on with the other symbols behind the damage of one, instead of ending there.",
            False,
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
        Field(min_length=1),
        about(
            "Unsharded log", "The unsharded log, an SQLite file.", "data/engine_output_log.sqlite"
        ),
        Form(argument=True),
    ]
    store: Store
    action: Annotated[
        MigrateAction,
        about(
            "Step",
            "status, begin (write to both), write (a source), backfill, compare, switch (read "
            "from the new one), back (read from the old one again) or end.",
            "status",
            "backfill",
        ),
    ] = "status"
    source: Annotated[
        str,
        about(
            "Source to write",
            "For write - a file, a folder, s3://bucket/prefix or - with the engine's outputs.",
            "engine.sot",
        ),
    ] = ""
    batch: Annotated[
        int,
        Field(ge=1, le=100_000),
        about("Records in a commit", "Records of a symbol per commit.", 500),
    ] = 500
