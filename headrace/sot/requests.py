"""What one run of a command of the log is asked to do, checked before anything is opened."""

from __future__ import annotations

from typing import Annotated, Any, Literal, TypeVar

from pydantic import BaseModel, ConfigDict, Field, ValidationError, field_validator

from headrace.errors import ConfigurationError
from headrace.sot.record import U32_MAX, U64_MAX
from headrace.sot.recovery.output import check_target
from headrace.sot.writing.options import MAX_SHARDS

SourceFormat = Literal["auto", "frames", "jsonl", "parquet"]
OutFormat = Literal["frames", "jsonl", "parquet"]
VerifyMode = Literal["full", "since", "sampled"]
MigrateAction = Literal["status", "begin", "write", "backfill", "compare", "switch", "back", "end"]

Symbol = Annotated[int, Field(ge=0, le=U32_MAX)]
Given = TypeVar("Given", bound="_Request")


class _Request(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid")

    store: Annotated[str, Field(min_length=1)]


class WriteRequest(_Request):
    """Put a stream into its chains; see `headrace.sot.writing.options` for what is left open."""

    source: Annotated[str, Field(min_length=1)]
    format: SourceFormat = "auto"
    shards: Annotated[int, Field(ge=1, le=MAX_SHARDS)] = 8
    processes: Annotated[int, Field(ge=-1, le=MAX_SHARDS)] = -1
    batch: Annotated[int, Field(ge=0, le=1_000_000)] = 0
    chain: bool = False
    first_seq: Annotated[int, Field(ge=0, le=U64_MAX)] = 1
    verify: bool = False


class VerifyRequest(_Request):
    """Recompute what is stored."""

    mode: VerifyMode = "full"
    symbols: tuple[Symbol, ...] = ()
    blocks: Annotated[int, Field(ge=1, le=100_000)] = 8
    processes: Annotated[int, Field(ge=-1, le=MAX_SHARDS)] = -1
    heads: bool = True


class RecoverRequest(_Request):
    """Replay what is stored."""

    out: Annotated[str, Field(min_length=1)]
    format: OutFormat = "frames"
    symbols: tuple[Symbol, ...] = ()
    past_damage: bool = False
    heads: bool = True

    @field_validator("out")
    @classmethod
    def _usable(cls, out: str) -> str:
        check_target(out)
        return out


class MigrateRequest(_Request):
    """Take a step of a migration; see `headrace.sot.migration`."""

    old: Annotated[str, Field(min_length=1)]
    action: MigrateAction = "status"
    source: str = ""
    batch: Annotated[int, Field(ge=1, le=100_000)] = 500


def checked(kind: type[Given], fields: dict[str, Any]) -> Given:
    """The request that these fields make.

    Raises:
        ConfigurationError: naming the first field that cannot be used, and why.
    """
    try:
        return kind.model_validate(fields)
    except ValidationError as error:
        first = error.errors()[0]
        name = ".".join(str(part) for part in first["loc"])
        given = first.get("input")
        raise ConfigurationError(f"{name}={given!r} cannot be used: {first['msg']}") from error
