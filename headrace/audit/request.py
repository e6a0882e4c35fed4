"""What one audit is asked to do."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import timedelta
from typing import Annotated, Any, Self

from pydantic import Field, field_validator, model_validator

from headrace.products.choice import StoredChoice
from headrace.pull.request import SPAN, ExchangeAccess, PullRequest, parse_span
from headrace.run.parameters import Form, about


class AuditRequest(StoredChoice, ExchangeAccess):
    """An audit of some products of a lake, or of all that it holds.

    Without products all that the lake holds are audited. `lag` is how long trades may still be
    missing; None: they may not. Pools, exchange and rate are those of the healing. With `sign` each
    product gets a manifest once it was audited, and healed.
    """

    deep: Annotated[
        bool,
        about(
            "Read every row",
            "Read every row too, and recompute order, uniqueness, counts and digests.",
            False,
        ),
    ] = False
    heal: Annotated[
        bool,
        about(
            "Repair and fetch",
            "Repair, fetch what is missing, and audit again. Nothing is deleted that "
            "is not proven.",
            False,
        ),
    ] = False
    offline: Annotated[
        bool,
        about(
            "Without the exchange",
            "Do not ask the exchange: compare with the newest trade in the lake. "
            "Prefect is used all the same, for the run and its checkpoints.",
            True,
        ),
    ] = False
    lag: Annotated[
        timedelta | None,
        about(
            "Lag allowed",
            "Trades younger than this may be missing, such as 15m; empty for none.",
            "15m",
            "1h",
        ),
        SPAN,
    ] = None

    sign: Annotated[
        bool,
        about(
            "Sign a manifest",
            "Then sign what each product holds, beside it (docs/manifests.md).",
            True,
        ),
    ] = False
    accept: Annotated[
        str,
        Field(max_length=200),
        about(
            "Accept losses, for a reason",
            "Sign although trades of the last manifest are lost or changed, or it is "
            "damaged; the reason stands in the manifest.",
            "the exchange corrected its prices",
        ),
    ] = ""

    key: Annotated[
        str,
        about(
            "Signing key",
            "What signs manifests, and says whose are trusted: a file or block:NAME.",
            "block:ours",
        ),
        Form(str, empty="", environment="HEADRACE_SIGNING_KEY"),
    ] = ""

    anchors: Annotated[
        str,
        about(
            "Anchors",
            "Where the lake's heads are kept and held against it: files, git:FOLDER or "
            "s3://bucket/prefix, joined by commas.",
            "git:/srv/anchors,s3://worm/headrace",
        ),
        Form(str, empty="", setting="lake_anchors", joined=True),
    ] = ""

    @field_validator("accept")
    @classmethod
    def _text(cls, accept: str) -> str:
        if not accept.isprintable():
            raise ValueError("it is signed, so it has to be one line of plain text")
        return accept

    @field_validator("lag", mode="before")
    @classmethod
    def _span(cls, value: Any) -> Any:
        return parse_span(value) if isinstance(value, str) else value

    @model_validator(mode="after")
    def _consistent(self) -> Self:
        if self.heal and self.offline:
            raise ValueError(
                "heal and offline exclude each other: healing fetches what is missing. Leave one "
                "of them out"
            )
        if self.lag is not None and self.offline:
            raise ValueError(
                "lag and offline exclude each other: without the exchange no newer trade is "
                "known. Leave one of them out"
            )
        if self.accept and not self.sign:
            raise ValueError("accept says why to sign: give sign, too, or leave accept out")
        return self

    def pull_of(self, products: Sequence[str]) -> PullRequest:
        """The backfill of these products: it fetches what is missing and nothing else."""
        access = {name: getattr(self, name) for name in ExchangeAccess.model_fields}
        return PullRequest(products=tuple(products), **access)
