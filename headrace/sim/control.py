"""The control endpoint `/_sim/…` of every simulation: what a test does in process, over HTTP.

| request | what it does |
|---|---|
| `GET stats?windows=1,60` | counts, and the fullest window of each length in seconds |
| `GET arrivals` | the log |
| `GET faults`, `POST faults`, `DELETE faults[/NUMBER]` | list, add one, remove one or all |
| `POST reset` | empty the log |

Each simulation has more of its own (`SimulatedService.read_state` and `change_state`). None of
these requests counts for limits, latency, faults or the log.
"""

from __future__ import annotations

import json
from dataclasses import asdict

from pydantic import TypeAdapter, ValidationError

from headrace.sim.catalogue import first_problem
from headrace.sim.exceptions import SpecError, UnknownCommand
from headrace.sim.faults import F
from headrace.sim.http import Reply, Request
from headrace.sim.process import PREFIX
from headrace.sim.service import SimulatedService

_WINDOWS = TypeAdapter(tuple[float, ...])


def control_reply(service: SimulatedService[F], request: Request) -> Reply:
    """Answer a control request; 400 says what cannot be read, 404 that the command is unknown."""
    command = request.path.removeprefix(PREFIX)
    try:
        if request.method == "GET":
            return _json(_read(service, command, request))
        return _json({"done": True, **_change(service, request.method, command, request.body)})
    except ValidationError as error:
        return _json({"message": first_problem(error)}, 400)
    except SpecError as error:
        return _json({"message": str(error)}, 400)
    except UnknownCommand:
        return _json({"message": f"no such command: {request.method} {request.path}"}, 404)


def _read(service: SimulatedService[F], command: str, request: Request) -> object:
    match command:
        case "stats":
            windows = request.query.get("windows", "1").split(",")
            return service.stats(_WINDOWS.validate_python(windows))
        case "arrivals":
            return [asdict(arrival) for arrival in service.arrivals()]
        case "faults":
            faults = service.faults().items()
            return {number: fault.model_dump(mode="json") for number, fault in faults}
        case _:
            return service.read_state(command, request.query)


def _change(service: SimulatedService[F], method: str, command: str, body: bytes) -> dict[str, int]:
    match method, *command.split("/"):
        case "POST", "faults":
            return {"number": service.add_fault(service.fault_class.model_validate_json(body))}
        case "DELETE", "faults":
            service.clear_faults()
        case "DELETE", "faults", number if number.isdecimal():
            service.remove_fault(int(number))
        case "POST", "reset":
            service.reset_log()
        case "POST", *_:
            service.change_state(command, body)
        case _:
            raise UnknownCommand
    return {}


def _json(value: object, status: int = 200) -> Reply:
    return Reply(status, json.dumps(value).encode())
