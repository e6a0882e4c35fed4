"""Standard output, when it cannot take any more."""

from __future__ import annotations

import os
import sys


def abandon_stdout() -> None:
    """Let what is still buffered go: the interpreter would try it again at its end, and complain.

    Nothing happens if it can be written after all.
    """
    try:
        sys.stdout.flush()
    except OSError:
        nowhere = os.open(os.devnull, os.O_WRONLY)
        os.dup2(nowhere, sys.stdout.fileno())
        os.close(nowhere)
