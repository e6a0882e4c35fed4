"""Where the command begins: loading takes a second, and Ctrl-C in that second is no traceback."""

from __future__ import annotations

import os
import signal
from types import FrameType

#: `Exit.INTERRUPTED`, whose module is among those that take time to load.
_INTERRUPTED = 130


def main() -> None:
    """Load the command, then run it.

    Where nothing else is said of SIGTERM, it ends the command as Ctrl-C does: also in the moment
    between a run that has kept what was complete and the process's end.
    """
    usual = signal.signal(signal.SIGINT, _leave)
    signal.signal(signal.SIGTERM, _leave)
    from headrace.cli.main import main as command

    signal.signal(signal.SIGINT, usual)
    command()


def _leave(_signum: int, _frame: FrameType | None) -> None:
    os._exit(_INTERRUPTED)
