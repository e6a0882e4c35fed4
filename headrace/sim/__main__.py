"""`python -m headrace.sim`: settings as one line of JSON on stdin, the URL as one on stdout.

The hand-over for launchers; people use `headrace sim exchange`.
"""

from __future__ import annotations

import sys

from headrace.sim.control import Control
from headrace.sim.serving import listener_for, serve_for_launcher
from headrace.sim.settings import ExchangeSettings
from headrace.sim.simulation import ExchangeSimulation

if __name__ == "__main__":
    settings = ExchangeSettings.model_validate_json(sys.stdin.buffer.readline())
    serve_for_launcher(listener_for(Control(ExchangeSimulation(settings)), settings.port))
