"""Where the command begins: loading takes a second, and Ctrl-C in that second is no traceback."""

from __future__ import annotations

import ctypes
import gc
import os
import signal
import sys
import warnings
from collections.abc import MutableMapping
from types import FrameType

from headrace.cli.standard_streams import prepare_streams, write_json_lines
from headrace.project import put_project_first
from headrace.settings.files import peek

#: `Exit.INTERRUPTED`, whose module is among those that take time to load.
_INTERRUPTED = 130

#: Objects made until garbage is looked for, in place of 700: loading makes a million and drops few.
_COLLECTION = (10_000, 20, 20)

#: Heaps, and the size in bytes from which each block is one of the kernel's, which takes it back
#: when it is freed: the environment's name, and `mallopt`'s number, of each.
_ALLOCATOR = (("MALLOC_ARENA_MAX", -8, 2), ("MALLOC_MMAP_THRESHOLD_", -3, 192 << 10))


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
    keep_memory_small()
    try:
        put_project_first()
        sys.meta_path.insert(0, WithoutPandas)
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


class WithoutPandas:
    """Finds neither pandas nor NumPy, as if they were not installed: no command needs them.

    Where they are, Arrow loads both, used or not: 43 MB, and a fifth of a second.
    """

    @staticmethod
    def find_spec(name: str, _path: object = None, _target: object = None) -> None:
        """As `importlib` asks; None leaves a name to the next finder."""
        if name in ("numpy", "pandas"):
            raise ModuleNotFoundError(f"{name} is hidden from commands", name=name)


def keep_memory_small() -> None:
    """Have the C library keep little of what was freed, where it is glibc.

    By itself it makes up to eight heaps a core for threads, which keep what is free between what is
    in use: more than is in use (docs/benchmarks.md). What the user has set is left alone.
    """
    gc.set_threshold(*_COLLECTION)
    mallopt = getattr(ctypes.CDLL(None), "mallopt", None)
    for variable, parameter, value in _ALLOCATOR:
        if mallopt is not None and variable not in os.environ:
            mallopt(parameter, value)


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
    return (os.environ.get("HEADRACE_LOG_FORMAT") or peek("log_format")) == "json"


def _leave(_signum: int, _frame: FrameType | None) -> None:
    os._exit(_INTERRUPTED)
