"""The control endpoint of a simulated Looker: beside what every desk understands,

| request | what it does |
|---|---|
| `GET ids?kind=KIND[&trash=1]` | ids of a kind, in order |
| `GET body?kind=KIND&id=ID` | an item's body, as text |
| `POST edit` | `{"kind", "id", "fields"}` |
| `POST put` | `{"kind", "id", "body"}`: serve this text |
| `POST create` | `{"kind", "fields", "id"}` |
| `POST trash`, `POST remove` | `{"kind", "id"}` |
| `POST changes` | a change to come |
| `POST revoke` | take every token back |
"""

from __future__ import annotations

from typing import Any

from pydantic import BaseModel, ConfigDict, Field

from headrace.sim.control_desk import ControlDesk, NoSuchCommandError
from headrace.sim.http import Request
from headrace.sim.looker.changes import Change
from headrace.sim.looker.faults import LookerFault
from headrace.sim.looker.simulation import LookerSimulation


class _ItemBody(BaseModel):
    """Body of what is done to one item."""

    model_config = ConfigDict(extra="forbid")

    kind: str
    id: str = ""
    fields: dict[str, Any] = Field(default_factory=dict)
    body: str = ""


class LookerControl(ControlDesk[LookerFault]):
    """Answers control requests for one simulated Looker."""

    def __init__(self, simulation: LookerSimulation) -> None:
        super().__init__(simulation, LookerFault)
        self._simulation = simulation

    def _tell(self, command: str, request: Request) -> object:
        query, library = request.query, self._simulation.library
        match command:
            case "ids":
                return library.ids(query.get("kind", ""), trash="trash" in query)
            case "body":
                body = library.body(query.get("kind", ""), query.get("id", ""))
                return {"body": None if body is None else body.decode("latin-1")}
            case _:
                raise NoSuchCommandError

    def _turn(self, command: str, body: bytes) -> None:
        match command:
            case "changes":
                self._simulation.add_change(Change.model_validate_json(body))
            case "revoke":
                self._simulation.desk.revoke()
            case "edit" | "put" | "create" | "trash" | "remove":
                self._change(command, _ItemBody.model_validate_json(body))
            case _:
                raise NoSuchCommandError

    def _change(self, deed: str, item: _ItemBody) -> None:
        library = self._simulation.library
        match deed:
            case "edit":
                library.edit(item.kind, item.id, **item.fields)
            case "put":
                library.put(item.kind, item.id, item.body.encode("latin-1"))
            case "create":
                library.create(item.kind, item.fields, item.id)
            case "trash":
                library.trash(item.kind, item.id)
            case _:
                library.remove(item.kind, item.id)
