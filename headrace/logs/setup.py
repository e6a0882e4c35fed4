"""Have the lines of this process written to standard error."""

from __future__ import annotations

import logging
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TextIO

from headrace.logs.formats import HumanFormatter, JsonFormatter
from headrace.logs.redaction import hide_environment
from headrace.settings import Settings

#: The root of this project's loggers.
LOGGER = logging.getLogger("headrace")

#: The other roots: the parts of the project that are packages of their own.
ROOTS = (LOGGER, *map(logging.getLogger, ("flows", "tasks", "blocks")))


class StderrHandler(logging.StreamHandler[TextIO]):
    """Writes to what `sys.stderr` is at that moment: bars that are drawn there redirect it."""

    def __init__(self) -> None:
        logging.Handler.__init__(self)

    @property
    def stream(self) -> TextIO:
        """Standard error."""
        return sys.stderr

    @stream.setter
    def stream(self, _stream: TextIO) -> None:
        raise AttributeError("it is always standard error")


@contextmanager
def written(settings: Settings) -> Iterator[None]:
    """Write the lines of a `with` block, in the format and from the level on that the settings say.

    Within another such block nothing changes.
    """
    if any(isinstance(handler, StderrHandler) for handler in LOGGER.handlers):
        yield
        return
    hide_environment()
    handler = StderrHandler()
    handler.setFormatter(JsonFormatter() if settings.log_format == "json" else HumanFormatter())
    handler.setLevel(level_of(settings, "info" if settings.log_format == "json" else "warning"))
    with attached(handler):
        yield


@contextmanager
def attached(handler: logging.Handler) -> Iterator[None]:
    """Hand the records of all parts of the project to `handler`, for a `with` block."""
    before = [root.level for root in ROOTS]
    for root in ROOTS:
        root.addHandler(handler)
        # Handlers choose; a logger without a level of its own would take the root's, warning.
        root.setLevel(min(handler.level, root.level or logging.INFO))
    try:
        yield
    finally:
        for root, level in zip(ROOTS, before, strict=True):
            root.removeHandler(handler)
            root.setLevel(level)


def level_of(settings: Settings, unsaid: str) -> int:
    """The level that the settings say, or `unsaid`, as a number of `logging`."""
    return logging.getLevelNamesMapping()[(settings.log_level or unsaid).upper()]
