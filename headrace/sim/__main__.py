"""`python -m headrace.sim`: settings as one line of JSON on stdin, the URL as one on stdout.

The hand-over for launchers; people use `headrace sim exchange`.
"""

from __future__ import annotations

import json
import sys

from headrace.sim.serving import serve
from headrace.sim.settings import ExchangeSettings


def _say(url: str) -> None:
    sys.stdout.write(json.dumps({"url": url}) + "\n")
    sys.stdout.flush()


if __name__ == "__main__":
    serve(
        ExchangeSettings.model_validate_json(sys.stdin.buffer.readline()),
        _say,
        parent_fd=sys.stdin.fileno(),
    )
