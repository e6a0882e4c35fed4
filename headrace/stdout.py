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


def write_stdout(content: bytes) -> None:
    """Write all of it to standard output, and flush it.

    An unbuffered one (`PYTHONUNBUFFERED`) takes a part where a signal comes or the pipe is closed.

    Raises:
        BrokenPipeError: who reads the pipe has left.
    """
    left = memoryview(content)
    while left:
        left = left[sys.stdout.buffer.write(left) :]
    sys.stdout.buffer.flush()
