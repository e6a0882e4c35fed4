"""Standard streams that take whatever is written: closed ones, other encodings, JSON only.

What a run did must not depend on what can be shown of it. A character that an encoding lacks is
replaced, and with `--log-format json` each line on standard error is a JSON object, whatever wrote
it: warnings of Python, loggers of libraries, tracebacks of threads.
"""

from __future__ import annotations

import codecs
import io
import logging
import os
import sys
import threading
import warnings
from types import TracebackType
from typing import Any, TextIO

#: Name of the error handler that never fails.
REPLACING = "headrace-replace"

#: Columns of a terminal, at least; a smaller number is not believed.
LEAST_WIDTH = 20

_ALIKE = str.maketrans({"…": ".", "–": "-", "—": "-", "‘": "'", "’": "'", "“": '"', "”": '"'})


def prepare_streams() -> None:
    """Have standard streams that can be written, whatever this process was started with."""
    _open_closed_streams()
    _ignore_impossible_width()
    codecs.register_error(REPLACING, _replaced)
    # Who closes the pipe (`| head`) has seen enough: what the command does goes on. A full disk is
    # a failure to write what was asked for. On standard error nothing can be said of either.
    sys.stdout = _forgiving(sys.stdout, BrokenPipeError)
    sys.stderr = _forgiving(sys.stderr, OSError)


def _open_closed_streams() -> None:
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


def _ignore_impossible_width() -> None:
    """Drop a width from the environment in which no table can be read: 0, as containers set it."""
    width = os.environ.get("COLUMNS", "")
    if width.isdecimal() and int(width) < LEAST_WIDTH:
        del os.environ["COLUMNS"]


class ForgivingStream(io.TextIOWrapper):
    """Text that goes nowhere, from the first error of this kind on."""

    forgiven: type[OSError] = BrokenPipeError
    #: The stream in whose place it stands; a logger that was set up before still writes to that.
    original: TextIO | None = None

    def write(self, text: str) -> int:
        """Write, or leave it."""
        try:
            return super().write(text)
        except self.forgiven:
            self._lead_nowhere()
            return len(text)

    def flush(self) -> None:
        """Flush, or leave it."""
        try:
            super().flush()
        except self.forgiven:
            self._lead_nowhere()

    def _lead_nowhere(self) -> None:
        # What is still buffered goes there as well.
        nowhere = os.open(os.devnull, os.O_WRONLY)
        os.dup2(nowhere, self.fileno())
        os.close(nowhere)


def _forgiving(stream: Any, forgiven: type[OSError]) -> Any:
    if not isinstance(stream, io.TextIOWrapper):
        return stream
    encoding, buffered = stream.encoding, stream.line_buffering
    through = stream.write_through
    wrapped = ForgivingStream(
        stream.buffer,
        encoding=encoding,
        errors=REPLACING,
        line_buffering=buffered,
        write_through=through,
    )
    wrapped.forgiven, wrapped.original = forgiven, stream
    return wrapped


def _replaced(error: UnicodeError) -> tuple[str, int]:
    """Of the same width where there is something alike; a byte of a path as its number."""
    if not isinstance(error, UnicodeEncodeError):
        raise error
    text = error.object[error.start : error.end].translate(_ALIKE)
    return "".join(map(_shown, text)), error.end


def _shown(character: str) -> str:
    if character.isascii():
        return character
    code = ord(character)
    return f"\\x{code - 0xDC00:02x}" if 0xDC80 <= code <= 0xDCFF else "?"


def write_json_lines() -> None:
    """From now on each line on standard error is a JSON object, until the process ends."""
    if isinstance(sys.stderr, JsonLines):
        return
    sys.stderr = JsonLines(sys.stderr)
    warnings.formatwarning = _warning_line
    sys.excepthook = _log_exception
    threading.excepthook = lambda failed: _log_exception(
        failed.exc_type,
        failed.exc_value or failed.exc_type(),
        failed.exc_traceback,
        f"the thread {failed.thread.name if failed.thread else '?'} ended",
    )
    sys.unraisablehook = lambda failed: _log_exception(
        failed.exc_type,
        failed.exc_value or failed.exc_type(),
        failed.exc_traceback,
        failed.err_msg or "ignored",
    )


def _warning_line(
    message: Warning | str,
    category: type[Warning],
    filename: str,
    lineno: int,
    line: str | None = None,  # noqa: ARG001 - as `warnings` calls it
) -> str:
    return f"{category.__name__}: {message} ({filename}:{lineno})\n"


def _log_exception(
    kind: type[BaseException],
    error: BaseException,
    trace: TracebackType | None,
    what: str = "the process ended",
) -> None:
    from headrace.logs import JsonFormatter

    record = logging.LogRecord(
        "python", logging.ERROR, __file__, 0, "%s: %s: %s", (what, kind.__name__, error),
        (kind, error, trace),
    )  # fmt: skip
    sys.stderr.write(JsonFormatter().format(record) + "\n")


class JsonLines(io.TextIOBase):
    """Takes text and writes JSON objects, one a line: those it gets, and lines made of the rest.

    Args:
        stream: where they go. JSON is UTF-8, so its encoding is not asked for.
    """

    encoding = "utf-8"
    errors = "strict"

    def __init__(self, stream: TextIO) -> None:
        super().__init__()
        self._stream = stream
        self._writing = threading.RLock()
        self._begun = threading.local()

    def write(self, text: str) -> int:
        """Write the lines that are complete."""
        if not isinstance(text, str):  # how libraries find out whether a stream takes bytes
            raise TypeError(f"text is written here, not {type(text).__name__}")
        *lines, rest = (getattr(self._begun, "text", "") + text).split("\n")
        self._begun.text = rest
        self._put(lines)
        return len(text)

    def flush(self) -> None:
        """Write what this thread has begun, too: a question has no end of line."""
        rest, self._begun.text = getattr(self._begun, "text", ""), ""
        self._put([rest])

    def fileno(self) -> int:
        """Of the stream below."""
        return self._stream.fileno()

    def writable(self) -> bool:
        """It is."""
        return True

    def _put(self, lines: list[str]) -> None:
        objects = [_as_object(line) for line in lines if line.strip()]
        if not objects:
            return
        data = "".join(f"{each}\n" for each in objects).encode("utf-8", "backslashreplace")
        with self._writing:
            binary: Any = getattr(self._stream, "buffer", None)
            if binary is None:
                self._stream.write(data.decode())
            else:
                binary.write(data)
            self._stream.flush()


def _as_object(line: str) -> str:
    from headrace.logs import json_line, safe_text

    return line if _is_object(line) else json_line("warning", safe_text(line), logger="stderr")


def _is_object(line: str) -> bool:
    import msgspec

    if not line.startswith("{"):
        return False
    try:
        return isinstance(msgspec.json.decode(line), dict)
    except (msgspec.DecodeError, UnicodeEncodeError):
        return False
