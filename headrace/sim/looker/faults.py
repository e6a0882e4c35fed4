"""Faults of the simulated Looker: what they can do, and which requests they meet."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, Literal

from pydantic import BaseModel, Field

from headrace.sim.actions import Cut, Drip, Hang, Html, Refuse, Reset, Respond, Slow, kinds_of
from headrace.sim.faults import ScriptedFault


class Error(BaseModel, frozen=True, extra="forbid"):
    """Answer as Looker itself does when something is wrong: its JSON, its documentation URL."""

    kind: Literal["error"] = "error"
    status: int = Field(500, ge=400, le=599)
    message: str = "An error has occurred."


class Revoke(BaseModel, frozen=True, extra="forbid"):
    """Take every token back before this request is judged: it is answered 401."""

    kind: Literal["revoke"] = "revoke"


LookerAction = Annotated[
    Error | Revoke | Slow | Respond | Html | Cut | Reset | Hang | Drip | Refuse,
    Field(discriminator="kind"),
]
KINDS = kinds_of(LookerAction)
Ask = Literal["login", "list", "item", "write", "any"]


@dataclass(frozen=True, slots=True)
class LookerSubject:
    """What a request is about, as far as faults and statistics look at it."""

    ask: Ask
    type: str | None = None
    id: str | None = None
    offset: int | None = None
    limit: int | None = None

    @property
    def product(self) -> str | None:
        """What the log counts requests by: the content type."""
        return self.type

    def covers(self, place: int) -> bool:
        """Whether it is a listing whose [offset, offset + limit) holds this place."""
        start = self.offset or 0
        end = float("inf") if self.limit is None else start + self.limit
        return self.ask == "list" and start <= place < end


class LookerFault(ScriptedFault):
    """An action, and the requests it meets. All conditions must hold.

    Args:
        action: what happens.
        ask: logins, listings, single items, writes, or any of them.
        type: only about this content type (`lookml_dashboard` for the listing of those).
        id: only about this single item.
        offset: only listings that begin at this offset.
        covers: only listings whose [offset, offset + limit) holds this place.
    """

    kinds = KINDS

    action: LookerAction
    ask: Ask = "any"
    type: str | None = None
    id: str | None = None
    offset: int | None = None
    covers: int | None = None

    def concerns(self, subject: LookerSubject) -> bool:
        """Whether a request is meant."""
        return (
            self.ask in ("any", subject.ask)
            and self.type in (None, subject.type)
            and self.id in (None, subject.id)
            and self.offset in (None, subject.offset)
            and (self.covers is None or subject.covers(self.covers))
        )


parse_looker_fault = LookerFault.parse
