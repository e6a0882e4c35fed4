"""`python -m headrace.sim.looker`: settings as a line of JSON on stdin, the URL as one on stdout.

The hand-over for launchers; people use `headrace sim looker`.
"""

from __future__ import annotations

import json
import sys

from headrace.sim.looker.server import looker_listener
from headrace.sim.looker.settings import LookerSettings
from headrace.sim.looker.simulation import LookerSimulation
from headrace.sim.serving import serve_listener


def _say(url: str) -> None:
    sys.stdout.write(json.dumps({"url": url}) + "\n")
    sys.stdout.flush()


if __name__ == "__main__":
    settings = LookerSettings.model_validate_json(sys.stdin.buffer.readline())
    simulation = LookerSimulation(settings)
    serve_listener(looker_listener(simulation), _say, parent_fd=sys.stdin.fileno())
