"""`headrace sot get` and `sot tail`: records of the log, by their place or as they come."""

from __future__ import annotations

import re
import time
from collections.abc import Callable
from pathlib import Path
from typing import Annotated

import msgspec
import typer

from headrace.cli.exit_codes import Exit
from headrace.cli.sot.stores import StoreOption, SymbolsOption, opened
from headrace.errors import ConfigurationError
from headrace.signals import stop_on_signals
from headrace.sot.cursor import CursorUnusable, load_cursor, save_cursor
from headrace.sot.exceptions import DamagedLog
from headrace.sot.frames import STREAM_MAGIC
from headrace.sot.opening import is_embedded
from headrace.sot.reading import head_of, read_frames, records_of
from headrace.sot.record import U32_MAX, U64_MAX
from headrace.sot.requests import ReadFormat
from headrace.sot.tailing import HOLD_S, POLL_S, Tail
from headrace.stdout import abandon_stdout, write_stdout

FormatOption = Annotated[ReadFormat, typer.Option("--format", help="How records are written.")]
#: The most that a command writes again after it was killed.
_SAVE_EVERY_S = 1.0
#: A cluster is asked for each symbol.
_POLL_CLUSTER_S = 0.1
_RANGE = re.compile(r"([0-9]{1,20})(\.\.([0-9]{1,20})?)?")


def get(
    symbol: Annotated[int, typer.Argument(min=0, max=U32_MAX, help="Symbol id.")],
    seq: Annotated[str, typer.Argument(help="A sequence, FIRST..LAST, or FIRST.. to the end.")],
    store: StoreOption = "",
    form: FormatOption = "jsonl",
) -> None:
    """Write some records of one symbol to standard output; nothing before them is replayed.

    Exit code 2: the log does not have all of them; 4: a record is damaged, and is named.
    """
    with opened(store) as log:
        first, last = _range(seq)
        if last is None:
            last = head_of(log, symbol).position.next_seq - 1
        try:
            runs = read_frames(log, symbol, first, last)
            write = _writer(form)
            for run in runs:
                write(run)
        except BrokenPipeError:
            abandon_stdout()  # who reads the pipe has seen enough
        except DamagedLog as damage:
            _end_with(damage)


def tail(
    store: StoreOption = "",
    follow: Annotated[
        bool, typer.Option("--follow", "-f", help="Go on with what is added, until Ctrl-C.")
    ] = False,
    cursor: Annotated[
        Path | None,
        typer.Option(help="Begin where this file says, and note there how far it came."),
    ] = None,
    symbols: SymbolsOption = None,
    hold: Annotated[
        float,
        typer.Option(
            min=0, max=3600, help="Seconds that a record waits for one that belongs before it."
        ),
    ] = HOLD_S,
    form: FormatOption = "jsonl",
) -> None:
    """Write the log to standard output in the order of a replay, then what is added to it.

    Exit code 4: a record is damaged, and is named; 130: interrupted, the cursor is saved.
    """
    if cursor is not None and not cursor.absolute().parent.is_dir():
        raise CursorUnusable(str(cursor), "its folder does not exist")
    with opened(store) as log, stop_on_signals() as stop:
        reader = Tail(
            log,
            load_cursor(cursor) if cursor else None,
            follow=follow,
            symbols=tuple(symbols or ()),
            hold_s=hold,
            poll_s=POLL_S if is_embedded(log.location) else _POLL_CLUSTER_S,
            stop=stop,
        )
        try:
            _copy(reader, _writer(form), cursor)
        except BrokenPipeError:
            abandon_stdout()
        except DamagedLog as damage:
            _end_with(damage)
        finally:
            if cursor is not None:
                save_cursor(cursor, reader.cursor)
        if stop.is_set():
            raise typer.Exit(Exit.INTERRUPTED)


def _copy(reader: Tail, write: Callable[[bytes], None], cursor: Path | None) -> None:
    saved_s = time.monotonic()
    for frames in reader.batches():
        write(b"".join(frames))
        # The batch before this one is behind the cursor, this one is not yet.
        if cursor is not None and time.monotonic() - saved_s >= _SAVE_EVERY_S:
            save_cursor(cursor, reader.cursor)
            saved_s = time.monotonic()


def _range(text: str) -> tuple[int, int | None]:
    """First and last sequence; None for the end of the chain."""
    match = _RANGE.fullmatch(text)
    if match is None:
        raise ConfigurationError(
            f"{text!r} is no sequence", hint="Write 17, 17..42, or 17.. for all from 17 on"
        )
    first = int(match[1])
    last = None if match[2] == ".." else int(match[3] or first)
    if first > U64_MAX or (last is not None and not first <= last <= U64_MAX):
        raise ConfigurationError(
            f"{text!r} is no range of sequences", hint="They rise from FIRST to LAST, below 2**64"
        )
    return first, last


def _writer(form: ReadFormat) -> Callable[[bytes], None]:
    """Writes runs of frames; a framed stream begins as every other."""
    if form == "frames":
        write_stdout(STREAM_MAGIC)
        return write_stdout
    encode = msgspec.json.Encoder().encode
    return lambda run: write_stdout(b"".join(encode(record) + b"\n" for record in records_of(run)))


def _end_with(damage: DamagedLog) -> None:
    """Say what is damaged; what came before it was written."""
    typer.echo(f"headrace: {damage}", err=True)
    raise typer.Exit(Exit.PARTIAL)
