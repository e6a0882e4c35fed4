"""Where the command begins: loading takes a second, and Ctrl-C in that second is no traceback."""

from __future__ import annotations

import os
import signal
import sys
from types import FrameType

from headrace.cli.streams import prepare_streams, write_json_lines

#: `Exit.INTERRUPTED`, whose module is among those that take time to load.
_INTERRUPTED = 130


def main() -> None:
    """Load the command, then run it.

    Where nothing else is said of SIGTERM, it ends the command as Ctrl-C does: also in the moment
    between a run that has kept what was complete and the process's end.
    """
    prepare_streams()
    usual = signal.signal(signal.SIGINT, _leave)
    signal.signal(signal.SIGTERM, _leave)
    if _json_is_asked_for(sys.argv[1:]):
        write_json_lines()
    from headrace.cli.main import main as command

    signal.signal(signal.SIGINT, usual)
    command()


def run_command(*command: str) -> None:
    """Do as `headrace COMMAND` with this process's arguments: for `python -m flows.COMMAND`."""
    sys.argv = ["headrace", *command, *sys.argv[1:]]
    main()


def _json_is_asked_for(words: list[str]) -> bool:
    """Before anything is loaded that could write: as `headrace.cli.common` reads it."""
    words = words[: words.index("--")] if "--" in words else words
    for before, word in zip(["", *words], [*words, ""], strict=True):
        if before == "--log-format":
            return word == "json"
        if word.startswith("--log-format="):
            return word == "--log-format=json"
    return os.environ.get("HEADRACE_LOG_FORMAT") == "json"


def _leave(_signum: int, _frame: FrameType | None) -> None:
    os._exit(_INTERRUPTED)
