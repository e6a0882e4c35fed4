"""Changes of the content that happen while it is read, after so many requests."""

from __future__ import annotations

import re
from typing import Literal

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from headrace.sim.catalogue import first_problem
from headrace.sim.exceptions import SpecError

_TEXT = re.compile(r"(?P<do>[a-z]+) (?P<kind>[a-z_]+)(:(?P<id>.+))? after (?P<after>[0-9]+)")


class Change(BaseModel):
    """One change of the content.

    Args:
        do: `remove` an item for good, `trash` it, `rename` it, or `create` one more.
        kind: of the item.
        id: which; a created one gets the next.
        after: how many listings and look-ups are answered before it happens.
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

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
