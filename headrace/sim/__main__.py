"""`python -m headrace.sim KIND`: settings as a line of JSON on stdin, the URL on stdout.

How `ChildServer` starts a simulation; people use `headrace sim`.
"""

from __future__ import annotations

import sys
from typing import Any

from headrace.sim.keyed.settings import KeyedSettings
from headrace.sim.keyed.simulation import KeyedSimulation
from headrace.sim.looker.settings import LookerSettings
from headrace.sim.looker.simulation import LookerSimulation
from headrace.sim.serving import serve_for_parent
from headrace.sim.settings import ExchangeSettings
from headrace.sim.simulation import ExchangeSimulation

_SIMULATIONS: dict[str, tuple[Any, Any]] = {
    "exchange": (ExchangeSettings, ExchangeSimulation),
    "keyed-exchange": (KeyedSettings, KeyedSimulation),
    "looker": (LookerSettings, LookerSimulation),
}

if __name__ == "__main__":
    settings_class, simulation_class = _SIMULATIONS[sys.argv[1]]
    settings = settings_class.model_validate_json(sys.stdin.buffer.readline())
    serve_for_parent(simulation_class(settings), settings.port)
