"""Standard output: for machines, and when it cannot take any more."""

from __future__ import annotations

import json
import os
import sys
from typing import Any


def say_json(value: Any) -> None:
    """One JSON object on a line, handed over at once: what cannot be written is known then.

    Raises:
        OSError: nobody takes it, or the disk is full.
    """
    sys.stdout.write(json.dumps(value) + "\n")
    sys.stdout.flush()


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
