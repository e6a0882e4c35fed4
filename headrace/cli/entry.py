"""Where the command begins: loading takes a second, and Ctrl-C in that second is no traceback."""

from __future__ import annotations

import os
import signal

#: `Exit.INTERRUPTED`, whose module is among those that take time to load.
_INTERRUPTED = 130


def main() -> None:
    """Load the command, then run it."""
    usual = signal.signal(signal.SIGINT, lambda _signum, _frame: os._exit(_INTERRUPTED))
    from headrace.cli.main import main as command

    signal.signal(signal.SIGINT, usual)
    command()
