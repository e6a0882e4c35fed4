"""`python -m headrace.sim.looker`: settings as a line of JSON on stdin, the URL as one on stdout.

The hand-over for launchers; people use `headrace sim looker`.
"""

from __future__ import annotations

import sys

from headrace.sim.looker.control import LookerControl
from headrace.sim.looker.settings import LookerSettings
from headrace.sim.looker.simulation import LookerSimulation
from headrace.sim.serving import listener_for, serve_for_launcher

if __name__ == "__main__":
    settings = LookerSettings.model_validate_json(sys.stdin.buffer.readline())
    serve_for_launcher(listener_for(LookerControl(LookerSimulation(settings)), settings.port))
