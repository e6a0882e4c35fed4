"""What may write to the terminal while a flow runs here."""

from __future__ import annotations

import os


def silence_prefect_console() -> None:
    """Keep Prefect's own log lines off the terminal; the UI still gets them all.

    Takes effect if Prefect is not imported yet. A level that the user set is left alone.
    """
    os.environ.setdefault("PREFECT_LOGGING_HANDLERS_CONSOLE_LEVEL", "CRITICAL")
