"""All that makes a simulated Looker, as one frozen value that fits into a JSON file."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Annotated, Any, Literal

from pydantic import BaseModel, Field, SecretStr, ValidationError, field_serializer, field_validator

from headrace.sim.catalogue import first_problem, or_text
from headrace.sim.exceptions import SpecError
from headrace.sim.latency import Constant, Latency, parse_latency
from headrace.sim.limits import Limit
from headrace.sim.looker.faults import LookerFault, parse_looker_fault

_TEXT = re.compile(r"(?P<do>[a-z]+) (?P<kind>[a-z_]+)(:(?P<id>.+))? after (?P<after>[0-9]+)")


class Change(BaseModel, frozen=True, extra="forbid"):
    """One change of the content.

    Args:
        do: `remove` an item for good, `trash` it, `rename` it, or `create` one more.
        kind: of the item.
        id: which; a created one gets the next.
        after: how many listings and look-ups are answered before it happens.
    """

    do: Literal["remove", "trash", "rename", "create"]
    kind: str
    id: str = ""
    after: int = Field(ge=0)


def parse_change(text: str) -> Change:
    """Read a change as written on the command line: `remove dashboard:7 after 3`.

    Raises:
        SpecError: it does not read.
    """
    match = _TEXT.fullmatch(text.strip())
    if match is None:
        raise SpecError("change", text, "write for example: remove dashboard:7 after 3")
    try:
        return Change.model_validate({k: v for k, v in match.groupdict().items() if v})
    except ValidationError as error:
        raise SpecError("change", text, first_problem(error)) from error


#: How many of each kind there are by default. Explores are per model.
DEFAULT_COUNTS: Mapping[str, int] = {
    "user": 10,
    "group": 4,
    "permission_set": 3,
    "model_set": 3,
    "role": 4,
    "folder": 8,
    "lookml_model": 2,
    "explore": 3,
    "look": 12,
    "dashboard": 40,
    "lookml_dashboard": 3,
    "board": 3,
    "scheduled_plan": 5,
    "user_attribute": 3,
    "alert": 3,
    "connection": 2,
    "merge_query": 0,
}
_MOST = 1_000_000
_KEY = re.compile(r"[a-z_]+:.+")


class LookerSettings(BaseModel, frozen=True, extra="forbid"):
    """What the instance holds, and how it behaves.

    Args:
        counts: items per kind (`lookml_dashboard` and `explore`, per model, included); kinds left
            out have their default, 0 empties a kind. Of `merge_query` each has a tile of a
            dashboard that shows it, and two queries.
        dashboard_bytes: about how long a dashboard's body is.
        big: bodies of their own length in bytes, by `TYPE:ID`, such as `dashboard:17`.
        slow: how many seconds an answer takes that holds the whole body of `TYPE:ID`.
        seed: of texts, delays and chances.
        client_id, client_secret: the only credentials there are.
        token_s: how long a token lasts.
        page_most: the server's own limit on `limit`; None for none.
        latency: of every answer; none by default.
        limits: rate limits, all of which hold; none by default.
        faults: in force from the start.
        changes: what happens to the content while it is read.
        port: on 127.0.0.1; 0 for any that is free.
    """

    counts: dict[str, Annotated[int, Field(ge=0, le=_MOST)]] = Field(default_factory=dict)
    dashboard_bytes: int = Field(4_000, ge=0, le=1_000_000)
    big: dict[str, Annotated[int, Field(ge=0, le=60_000_000)]] = Field(default_factory=dict)
    slow: dict[str, Annotated[float, Field(ge=0)]] = Field(default_factory=dict)
    seed: int = 0
    client_id: str = "headrace"
    client_secret: SecretStr = SecretStr("simulated-secret")
    token_s: Annotated[float, Field(gt=0)] = 3600.0
    page_most: Annotated[int, Field(ge=1)] | None = None
    latency: Annotated[Latency, or_text(parse_latency)] = Constant()
    limits: tuple[Limit, ...] = ()
    faults: tuple[Annotated[LookerFault, or_text(parse_looker_fault)], ...] = ()
    changes: tuple[Annotated[Change, or_text(parse_change)], ...] = ()
    port: int = Field(0, ge=0, le=65_535)

    @field_validator("counts")
    @classmethod
    def _known(cls, counts: dict[str, int]) -> dict[str, int]:
        for kind in counts:
            if kind not in DEFAULT_COUNTS:
                raise ValueError(f"no kind {kind!r}; there are {', '.join(DEFAULT_COUNTS)}")
        return {**DEFAULT_COUNTS, **counts}

    @field_validator("big", "slow")
    @classmethod
    def _keys(cls, by_item: dict[str, Any]) -> dict[str, Any]:
        for key in by_item:
            if not _KEY.fullmatch(key):
                raise ValueError(f"{key!r} is not TYPE:ID")
        return by_item

    @field_serializer("client_secret", when_used="json")
    def _reveal(self, secret: SecretStr) -> str:
        # JSON is how a launcher hands the secret to the server's own process, over a pipe.
        return secret.get_secret_value()

    @classmethod
    def of(cls, **fields: Any) -> LookerSettings:
        """Settings from what a caller writes.

        Raises:
            SpecError: naming the field that cannot be used.
        """
        fields["counts"] = fields.get("counts") or dict(DEFAULT_COUNTS)
        try:
            return cls.model_validate(fields)
        except ValidationError as error:
            raise SpecError("simulated Looker", "settings", first_problem(error)) from error
