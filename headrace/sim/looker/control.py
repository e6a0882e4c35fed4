"""The control endpoint `/_sim/…` of a simulated Looker.

| request | what it does |
|---|---|
| `GET stats?windows=1,60` | counts, and the fullest window of each length in seconds |
| `GET arrivals` | the log |
| `GET ids?kind=KIND[&trash=1]` | ids of a kind, in order |
| `GET body?kind=KIND&id=ID` | an item's body, as text |
| `GET faults`, `POST faults`, `DELETE faults[/NUMBER]` | list, add one, lift one or all |
| `POST edit` | `{"kind", "id", "fields"}` |
| `POST put` | `{"kind", "id", "body"}`: serve this text |
| `POST create` | `{"kind", "fields", "id"}` |
| `POST trash`, `POST remove` | `{"kind", "id"}` |
| `POST changes` | a change to come |
| `POST revoke` | take every token back |
| `POST reset` | forget the log |
"""

from __future__ import annotations

import json
from dataclasses import asdict
from typing import Any

from pydantic import BaseModel, ConfigDict, Field, TypeAdapter, ValidationError

from headrace.sim.catalogue import first_problem
from headrace.sim.child import PREFIX
from headrace.sim.exceptions import SpecError
from headrace.sim.http import Reply, Request
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


class _NoSuchCommandError(Exception):
    """Nothing here goes by that name."""


_WINDOWS = TypeAdapter(tuple[float, ...])


class LookerControl:
    """Answers control requests for one simulation."""

    def __init__(self, simulation: LookerSimulation) -> None:
        self._simulation = simulation

    def answer(self, request: Request) -> Reply:
        """Do what is asked; 400 says what cannot be read, 404 that there is no such command."""
        command = request.path.removeprefix(PREFIX)
        try:
            if request.method == "GET":
                return _json(self._tell(command, request))
            return _json(self._turn(request.method, command, request.body))
        except ValidationError as error:
            return _json({"message": first_problem(error)}, 400)
        except SpecError as error:
            return _json({"message": str(error)}, 400)
        except _NoSuchCommandError:
            return _json({"message": f"no such command: {request.method} {request.path}"}, 404)

    def _tell(self, command: str, request: Request) -> object:
        query, simulation = request.query, self._simulation
        match command:
            case "stats":
                windows = query.get("windows", "1").split(",")
                return simulation.stats(_WINDOWS.validate_python(windows))
            case "arrivals":
                return [asdict(arrival) for arrival in simulation.arrivals()]
            case "ids":
                return simulation.library.ids(query.get("kind", ""), trash="trash" in query)
            case "body":
                body = simulation.library.body(query.get("kind", ""), query.get("id", ""))
                return {"body": None if body is None else body.decode("latin-1")}
            case "faults":
                faults = simulation.faults().items()
                return {number: fault.model_dump(mode="json") for number, fault in faults}
            case _:
                raise _NoSuchCommandError

    def _turn(self, method: str, command: str, body: bytes) -> object:
        simulation, library = self._simulation, self._simulation.library
        done: dict[str, object] = {"done": True}
        match method, *command.split("/"):
            case "POST", "faults":
                number = simulation.add_fault(LookerFault.model_validate_json(body))
                return {**done, "number": number}
            case "DELETE", "faults":
                simulation.clear_faults()
            case "DELETE", "faults", number if number.isdecimal():
                simulation.remove_fault(int(number))
            case "POST", "changes":
                simulation.add_change(Change.model_validate_json(body))
            case "POST", "revoke":
                simulation.desk.revoke()
            case "POST", "reset":
                simulation.reset_log()
            case "POST", "edit" | "put" | "create" | "trash" | "remove" as deed:
                item = _ItemBody.model_validate_json(body)
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
            case _:
                raise _NoSuchCommandError
        return done


def _json(value: object, status: int = 200) -> Reply:
    return Reply(status, json.dumps(value).encode())
