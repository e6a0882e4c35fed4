"""Log lines of a run in the Prefect UI, beside standard error."""

from __future__ import annotations

import logging
import threading
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from contextvars import copy_context

from prefect.context import FlowRunContext, TaskRunContext
from prefect.logging import get_run_logger
from prefect.logging.handlers import PrefectConsoleHandler

from headrace.logs import run_everywhere, written
from headrace.logs.formats import about_record, text_of
from headrace.logs.setup import attached, level_of
from headrace.settings import Settings

#: Lines that one run may send to the API, and warnings on top of them. Each is a row of its
#: database, and a long backfill has a line per chunk; standard error gets them all.
MOST_LINES = 1_000
MOST_WARNINGS = 500

#: Marks a record that went to Prefect's loggers, which have a console of their own.
_HANDED_OVER = "headrace_handed_over"


class RunLogHandler(logging.Handler):
    """Hands the records of one run to Prefect's run loggers, so many of them and no more.

    Made within the run, whose context it takes along for threads that have none.

    Args:
        run_id: id of the flow run; records of other runs are left to them.
    """

    def __init__(
        self, run_id: str, *, most_lines: int = MOST_LINES, most_warnings: int = MOST_WARNINGS
    ) -> None:
        super().__init__()
        self._run_id = run_id
        self._left = {False: most_lines, True: most_warnings}
        self._counting = threading.Lock()
        self._context = copy_context()

    def emit(self, record: logging.LogRecord) -> None:
        """Hand over one record; that this fails is no reason for a run to."""
        try:
            self._emit(record)
        except Exception:  # noqa: BLE001 - as every handler of `logging` does
            self.handleError(record)

    def _emit(self, record: logging.LogRecord) -> None:
        known = about_record(record)
        if known.get("run", self._run_id) != self._run_id:
            return
        left = self._take(urgent=record.levelno >= logging.WARNING)
        if left < 0:
            return
        setattr(record, _HANDED_OVER, True)
        subject = " ".join(known[name] for name in ("product", "chunk") if name in known)
        text = f"[{subject}] {text_of(record)}" if subject else text_of(record)
        if _in_a_run():
            self._hand_over(record.levelno, text, last=left == 0)
        else:
            # A bare thread, such as the one that renews leases, knows neither run nor API.
            self._context.copy().run(self._hand_over, record.levelno, text, last=left == 0)

    def _hand_over(self, level: int, text: str, *, last: bool) -> None:
        logger = get_run_logger()
        logger.log(level, "%s", text)
        if last:
            what = "warnings" if level >= logging.WARNING else "lines below warning"
            logger.info("this was the last of the %s that a run shows here", what)

    def _take(self, *, urgent: bool) -> int:
        """How many may follow this one; below 0 if this one is too many."""
        with self._counting:
            self._left[urgent] -= 1
            return self._left[urgent]


def _in_a_run() -> bool:
    return FlowRunContext.get() is not None or TaskRunContext.get() is not None


@contextmanager
def logs_of_run(run_id: str, settings: Settings) -> Iterator[None]:
    """Have the lines of a run shown in the UI, and as JSON on standard error where that is set.

    A command writes its lines in any case (`headrace.logs.written`); in a worker Prefect's own
    console shows them, each once, unless JSON is asked for, which then takes its place.
    """
    handler = RunLogHandler(run_id)
    handler.setLevel(level_of(settings, "info"))
    with ExitStack() as opened:
        opened.enter_context(run_everywhere(run_id))
        if settings.log_format == "json":
            opened.enter_context(written(settings))
        opened.enter_context(_on_consoles(_Silent() if settings.log_format == "json" else _Once()))
        opened.enter_context(attached(handler))
        yield


class _Once(logging.Filter):
    """Drops what Prefect's run loggers have said already, with its product and chunk."""

    def filter(self, record: logging.LogRecord) -> bool:
        """Whether to show it."""
        return not getattr(record, _HANDED_OVER, False)


class _Silent(logging.Filter):
    """Drops everything below critical: it is said in another form."""

    def filter(self, record: logging.LogRecord) -> bool:
        """Whether to show it."""
        return record.levelno >= logging.CRITICAL


@contextmanager
def _on_consoles(chosen: logging.Filter) -> Iterator[None]:
    """Filter what Prefect's console handlers show; its logging has them on the root logger."""
    consoles = [
        handler
        for handler in logging.getLogger().handlers
        if isinstance(handler, PrefectConsoleHandler)
    ]
    for handler in consoles:
        handler.addFilter(chosen)
    try:
        yield
    finally:
        for handler in consoles:
            handler.removeFilter(chosen)
