"""The control endpoint of a simulated exchange: beside what every desk understands,

| request | what it does |
|---|---|
| `GET settings` | seed, `now_s`, products and the rest, without keys |
| `GET newest?product=ID` | the highest id that is out |
| `POST grow` | `{"product", "trades"}` |
| `POST rows` | `{"product", "rows": {id: row, JSON text or null}, "only": false}` |
| `POST products` | a product spec |
"""

from __future__ import annotations

from typing import Any

from pydantic import BaseModel, ConfigDict, Field

from headrace.sim.catalogue import ProductSpec
from headrace.sim.control_desk import ControlDesk, NoSuchCommandError
from headrace.sim.faults import Fault
from headrace.sim.http import Request
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


class Control(ControlDesk[Fault]):
    """Answers control requests for one simulated exchange."""

    def __init__(self, simulation: ExchangeSimulation) -> None:
        super().__init__(simulation, Fault)
        self._simulation = simulation

    def _tell(self, command: str, request: Request) -> object:
        match command:
            case "settings":
                return self._simulation.settings.model_dump(mode="json", exclude={"keys"})
            case "newest":
                return {"newest": self._simulation.newest_id(request.query.get("product", ""))}
            case _:
                raise NoSuchCommandError

    def _turn(self, command: str, body: bytes) -> None:
        match command:
            case "grow":
                growth = Growth.model_validate_json(body)
                self._simulation.grow(growth.product, growth.trades)
            case "rows":
                rows = Rows.model_validate_json(body)
                put = self._simulation.serve_rows if rows.only else self._simulation.replace_rows
                put(rows.product, rows.rows)
            case "products":
                self._simulation.put_product(ProductSpec.model_validate_json(body))
            case _:
                raise NoSuchCommandError
