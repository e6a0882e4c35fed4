"""Where the command begins: loading takes a second, and Ctrl-C in that second is no traceback."""

from __future__ import annotations

import os
import signal
import sys
import warnings
from collections.abc import MutableMapping
from importlib.machinery import ModuleSpec, PathFinder
from pathlib import Path
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
    let_no_warning_be_an_error(os.environ)
    try:
        sys.meta_path.insert(0, OwnPackages)
        from headrace.cli.main import main as command
    except Exception as error:  # noqa: BLE001 - limits, a broken installation: no traceback
        words = " ".join(str(error).split())
        sys.stderr.write(f"headrace: it cannot be loaded: {type(error).__name__}: {words}\n")
        sys.exit(1)
    signal.signal(signal.SIGINT, usual)
    command()


def let_no_warning_be_an_error(environ: MutableMapping[str, str]) -> None:
    """Have warnings shown that would be raised (`PYTHONWARNINGS=error`), here and in children.

    They are about the code of libraries, and a run does not depend on that.
    """
    if filters := environ.get("PYTHONWARNINGS"):
        environ["PYTHONWARNINGS"] = ",".join(map(_shown_not_raised, filters.split(",")))
    warnings.filters[:] = [  # type: ignore[index]
        ("default", *rest) if action == "error" else (action, *rest)
        for action, *rest in warnings.filters
    ]


def _shown_not_raised(one_filter: str) -> str:
    action, colon, rest = one_filter.partition(":")
    return f"default{colon}{rest}" if action.strip() and "error".startswith(action) else one_filter


class OwnPackages:
    """Finds the packages of this project whose names others use, too, where this project is.

    A folder `tasks` of the user's on PYTHONPATH would be found before them.
    """

    _names = ("blocks", "tasks", "flows")
    _root = str(Path(__file__).parents[2])

    @classmethod
    def find_spec(
        cls, name: str, _path: object = None, _target: object = None
    ) -> ModuleSpec | None:
        """As `importlib` asks; None leaves a name to the next finder."""
        return PathFinder.find_spec(name, [cls._root]) if name in cls._names else None


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
