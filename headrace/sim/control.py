"""The control endpoint `/_sim/…`: what a test turns in process, over HTTP and in JSON.

| request | what it does |
|---|---|
| `GET stats?windows=1,60` | counts, and the fullest window of each length in seconds |
| `GET arrivals` | the log |
| `POST reset` | forget the log |
| `GET settings` | seed, `now_s`, products and the rest, without keys |
| `GET newest?product=ID` | the highest id that is out |
| `GET faults`, `POST faults`, `DELETE faults[/NUMBER]` | list, add one, lift one or all |
| `POST grow` | `{"product", "trades"}` |
| `POST rows` | `{"product", "rows": {id: row, JSON text or null}, "only": false}` |
| `POST products` | a product spec |

None of these requests counts for limits, latency, faults or the log.
"""

from __future__ import annotations

import json
from dataclasses import asdict
from typing import Any

from pydantic import BaseModel, ConfigDict, Field, TypeAdapter, ValidationError

from headrace.sim.catalogue import ProductSpec, first_problem
from headrace.sim.child import PREFIX
from headrace.sim.exceptions import SpecError
from headrace.sim.faults import Fault
from headrace.sim.http import Reply, Request
from headrace.sim.simulation import ExchangeSimulation


class _Body(BaseModel):
    model_config = ConfigDict(extra="forbid")


class Growth(_Body):
    """Body of `POST grow`."""

    product: str
    trades: int = Field(ge=0)


class Rows(_Body):
    """Body of `POST rows`."""

    product: str
    rows: dict[int, dict[str, Any] | str | None]
    only: bool = False


class _NoSuchCommandError(Exception):
    """Nothing here goes by that name."""


_WINDOWS = TypeAdapter(tuple[float, ...])


class Control:
    """Answers control requests for one simulation."""

    def __init__(self, simulation: ExchangeSimulation) -> None:
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
        match command:
            case "stats":
                windows = request.query.get("windows", "1").split(",")
                return self._simulation.stats(_WINDOWS.validate_python(windows))
            case "arrivals":
                return [asdict(arrival) for arrival in self._simulation.arrivals()]
            case "settings":
                return self._simulation.settings.model_dump(mode="json", exclude={"keys"})
            case "newest":
                return {"newest": self._simulation.newest_id(request.query.get("product", ""))}
            case "faults":
                faults = self._simulation.faults().items()
                return {number: fault.model_dump(mode="json") for number, fault in faults}
            case _:
                raise _NoSuchCommandError

    def _turn(self, method: str, command: str, body: bytes) -> object:
        done: dict[str, object] = {"done": True}
        match method, *command.split("/"):
            case "POST", "faults":
                number = self._simulation.add_fault(Fault.model_validate_json(body))
                return {**done, "number": number}
            case "DELETE", "faults":
                self._simulation.clear_faults()
            case "DELETE", "faults", number if number.isdecimal():
                self._simulation.remove_fault(int(number))
            case "POST", "grow":
                growth = Growth.model_validate_json(body)
                self._simulation.grow(growth.product, growth.trades)
            case "POST", "rows":
                rows = Rows.model_validate_json(body)
                put = self._simulation.serve_rows if rows.only else self._simulation.replace_rows
                put(rows.product, rows.rows)
            case "POST", "products":
                self._simulation.put_product(ProductSpec.model_validate_json(body))
            case "POST", "reset":
                self._simulation.reset_log()
            case _:
                raise _NoSuchCommandError
        return done


def _json(value: object, status: int = 200) -> Reply:
    return Reply(status, json.dumps(value).encode())
