"""What every control endpoint `/_sim/…` understands: what a test turns in process, over HTTP.

| request | what it does |
|---|---|
| `GET stats?windows=1,60` | counts, and the fullest window of each length in seconds |
| `GET arrivals` | the log |
| `GET faults`, `POST faults`, `DELETE faults[/NUMBER]` | list, add one, lift one or all |
| `POST reset` | forget the log |

None of these requests counts for limits, latency, faults or the log.
"""

from __future__ import annotations

import json
from abc import ABC, abstractmethod
from dataclasses import asdict
from typing import Generic

from pydantic import TypeAdapter, ValidationError

from headrace.sim.catalogue import first_problem
from headrace.sim.child import PREFIX
from headrace.sim.exceptions import SpecError
from headrace.sim.http import Reply, Request
from headrace.sim.scripted import F
from headrace.sim.service import SimulatedService

_WINDOWS = TypeAdapter(tuple[float, ...])


class NoSuchCommandError(Exception):
    """Nothing here goes by that name."""


class ControlDesk(ABC, Generic[F]):
    """Answers control requests for one simulation; a subclass adds what is its own.

    Args:
        service: what is looked at and turned.
        fault_class: what `POST faults` takes.
    """

    def __init__(self, service: SimulatedService[F], fault_class: type[F]) -> None:
        self.service = service
        self._fault_class = fault_class

    def answer(self, request: Request) -> Reply:
        """Do what is asked; 400 says what cannot be read, 404 that there is no such command."""
        command = request.path.removeprefix(PREFIX)
        try:
            if request.method == "GET":
                return _json(self._told(command, request))
            return _json({"done": True, **self._turned(request.method, command, request.body)})
        except ValidationError as error:
            return _json({"message": first_problem(error)}, 400)
        except SpecError as error:
            return _json({"message": str(error)}, 400)
        except NoSuchCommandError:
            return _json({"message": f"no such command: {request.method} {request.path}"}, 404)

    @abstractmethod
    def _tell(self, command: str, request: Request) -> object:
        """Answer a question that only this simulation knows; raises `NoSuchCommandError`."""

    @abstractmethod
    def _turn(self, command: str, body: bytes) -> None:
        """Do what only this simulation can; raises `NoSuchCommandError`."""

    def _told(self, command: str, request: Request) -> object:
        match command:
            case "stats":
                windows = request.query.get("windows", "1").split(",")
                return self.service.stats(_WINDOWS.validate_python(windows))
            case "arrivals":
                return [asdict(arrival) for arrival in self.service.arrivals()]
            case "faults":
                faults = self.service.faults().items()
                return {number: fault.model_dump(mode="json") for number, fault in faults}
            case _:
                return self._tell(command, request)

    def _turned(self, method: str, command: str, body: bytes) -> dict[str, int]:
        match method, *command.split("/"):
            case "POST", "faults":
                fault = self._fault_class.model_validate_json(body)
                return {"number": self.service.add_fault(fault)}
            case "DELETE", "faults":
                self.service.clear_faults()
            case "DELETE", "faults", number if number.isdecimal():
                self.service.remove_fault(int(number))
            case "POST", "reset":
                self.service.reset_log()
            case "POST", *_:
                self._turn(command, body)
            case _:
                raise NoSuchCommandError
        return {}


def _json(value: object, status: int = 200) -> Reply:
    return Reply(status, json.dumps(value).encode())
