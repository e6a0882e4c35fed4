"""Where the command begins: loading takes a second, and Ctrl-C in that second is no traceback."""

from __future__ import annotations

import os
import signal
import sys
from types import FrameType

#: `Exit.INTERRUPTED`, whose module is among those that take time to load.
_INTERRUPTED = 130


def main() -> None:
    """Load the command, then run it.

    Where nothing else is said of SIGTERM, it ends the command as Ctrl-C does: also in the moment
    between a run that has kept what was complete and the process's end.
    """
    _have_streams()
    usual = signal.signal(signal.SIGINT, _leave)
    signal.signal(signal.SIGTERM, _leave)
    from headrace.cli.main import main as command

    signal.signal(signal.SIGINT, usual)
    command()


def _have_streams() -> None:
    """Put nowhere in the place of standard streams that are closed (`>&-`).

    Otherwise the next file that is opened, a lake's or a database's, would be taken for one.
    """
    for descriptor, (name, mode) in enumerate((("stdin", "r"), ("stdout", "w"), ("stderr", "w"))):
        try:
            os.fstat(descriptor)
        except OSError:
            os.open(os.devnull, os.O_RDWR)  # takes the lowest number that is free: this one
        if getattr(sys, name) is None:
            setattr(sys, name, os.fdopen(descriptor, mode, closefd=False))


def _leave(_signum: int, _frame: FrameType | None) -> None:
    os._exit(_INTERRUPTED)
