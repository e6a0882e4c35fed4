"""`headrace query`: SQL over a lake."""

from __future__ import annotations

import sys
import threading
from collections.abc import Callable
from contextlib import AbstractContextManager
from functools import partial
from pathlib import Path
from shutil import rmtree
from typing import TYPE_CHECKING, Annotated, Any, BinaryIO

import pyarrow as pa
import typer
from rich.box import HEAVY_HEAD
from rich.text import Text

from headrace.atomic_files import check_place, written_whole
from headrace.cli.common import LakeOption, result_console
from headrace.cli.exit_codes import Exit
from headrace.cli.places import opened_store
from headrace.cli.tables import Column, FittedTable
from headrace.errors import ConfigurationError
from headrace.extras import import_with
from headrace.lake import look_into
from headrace.logs.redaction import safe_text
from headrace.query.exceptions import QueryRefused
from headrace.query.formats import FORMAT_OF_SUFFIX, Format, plain_decimals, row_writer
from headrace.signals import leave_on_signals
from headrace.stdout import abandon_stdout
from headrace.unified.exceptions import TableMissing

if TYPE_CHECKING:
    from headrace.query.session import Session

#: A table is for people; `--format csv` has all rows.
ROWS_SHOWN = 100
#: How long a query that is interrupted may take to end by itself; the signal allows a second more.
_UNWIND_S = 2.0
_BINARY = (Format.ARROW, Format.PARQUET)


def query(
    sql: Annotated[
        str, typer.Argument(help="One SELECT in DuckDB's SQL; none or -: from standard input.")
    ] = "",
    file: Annotated[Path | None, typer.Option(help="Read the SQL from this file.")] = None,
    form: Annotated[
        Format | None,
        typer.Option(
            "--format", help="Default: that of --output's name, else table (the first 100 rows)."
        ),
    ] = None,
    output: Annotated[Path | None, typer.Option(help="Write the rows to this file.")] = None,
    force: Annotated[bool, typer.Option("--force", help="Replace a file that is there.")] = False,
    lake: LakeOption = "",
    memory: Annotated[
        str, typer.Option(help="What the query may use; sorts beyond it go to disk.")
    ] = "2GB",
) -> None:
    """Ask a lake in SQL; nothing is written to it.

    Tables: trades (unified, exact decimals), trades_raw (as the exchange sent them), quarantine
    (what fits no column of trades), candles('1 hour', product := 'BTC-USD', since := '2024-01-01',
    until := '2024-02-01').
    """
    text = _text(sql, file)
    form = _format(form, output)
    session_module = import_with("unified", "headrace.query.session")
    with opened_store(lake, quiet=True) as store:
        opened = look_into(store)
        if output is not None:
            check_place(output, opened.location, force=force)
        with_session = partial(session_module.open_session, opened, memory=memory)
        try:
            _in_thread(with_session, lambda session: _run(session, text, form, output, force=force))
        except TableMissing as error:  # what the text asks for cannot be, as of any other table
            raise QueryRefused(error.message, hint=error.hint) from error


def _run(session: Session, text: str, form: Format, output: Path | None, *, force: bool) -> None:
    with session.stream(text) as reader:
        if form is Format.TABLE:
            _show(reader)
        elif output is not None:
            with written_whole(output, force=force) as sink:
                _write(reader, form, sink)
        else:
            try:
                _write(reader, form, sys.stdout.buffer)
                sys.stdout.buffer.flush()
            except BrokenPipeError:
                abandon_stdout()  # who reads the pipe has seen enough


def _write(reader: pa.RecordBatchReader, form: Format, sink: BinaryIO) -> None:
    with row_writer(form, reader.schema, sink) as write:
        for batch in reader:
            write(batch)


def _text(sql: str, file: Path | None) -> str:
    if sql and file is not None:
        raise ConfigurationError("there are two SQL texts", hint="Give SQL or --file, not both")
    if file is not None:
        try:
            return file.read_text(encoding="utf-8")
        except (OSError, UnicodeDecodeError) as error:
            reason = getattr(error, "strerror", None) or "it is no text in UTF-8"
            raise ConfigurationError(f"{file} cannot be read: {reason}") from error
    if sql not in ("", "-"):
        return sql
    if sql == "" and sys.stdin.isatty():
        raise ConfigurationError(
            "there is no SQL text",
            hint='headrace query "SELECT symbol, count(*) FROM trades GROUP BY ALL"',
        )
    return sys.stdin.read()


def _format(form: Format | None, output: Path | None) -> Format:
    if output is None:
        form = form or Format.TABLE
        if form in _BINARY and sys.stdout.isatty():
            raise ConfigurationError(f"{form} is not for a terminal", hint="Give --output FILE")
        return form
    form = form or FORMAT_OF_SUFFIX.get(output.suffix.lower())
    if form is None or form is Format.TABLE:
        raise ConfigurationError(
            f"{output}: no format for a file",
            hint="Give --format csv, json, jsonl, arrow or parquet",
        )
    return form


def _in_thread(
    with_session: Callable[[], AbstractContextManager[Session]], work: Callable[[Session], None]
) -> None:
    """Do `work` in a thread: the main thread alone sees signals, and not while DuckDB works."""
    running: list[Session] = []
    failures: list[BaseException] = []

    def run() -> None:
        try:
            with with_session() as session:
                running.append(session)
                work(session)
        except BaseException as error:  # noqa: BLE001 - raised again in the main thread
            failures.append(error)

    thread = threading.Thread(target=run, name="headrace-query", daemon=True)

    stopped = threading.Event()

    def give_up() -> None:
        stopped.set()
        for session in running:
            session.interrupt()
        thread.join(_UNWIND_S)  # it removes what it has begun to write
        for session in running:
            rmtree(session.spilled, ignore_errors=True)

    with leave_on_signals(give_up):
        thread.start()
        thread.join()
    if stopped.is_set():
        raise typer.Exit(Exit.INTERRUPTED)
    for failure in failures:
        raise failure


def _show(reader: pa.RecordBatchReader) -> None:
    rows: list[tuple[Any, ...]] = []
    for batch in reader:
        columns = [plain_decimals(column).to_pylist() for column in batch.columns]
        rows += zip(*columns, strict=True)
        if len(rows) > ROWS_SHOWN:
            break
    console = result_console()
    if reader.schema.names == ["explain_key", "explain_value"]:
        for _, plan in rows:
            console.print(Text(plan), soft_wrap=True)
        return
    cells = [
        ["" if value is None else safe_text(str(value)) for value in row]
        for row in rows[:ROWS_SHOWN]
    ]
    console.print(FittedTable([_column(one) for one in reader.schema], cells, frame=HEAVY_HEAD))
    if len(rows) > ROWS_SHOWN:
        typer.echo(f"the first {ROWS_SHOWN} rows; --format csv writes all", err=True)


def _column(field: pa.Field) -> Column:
    number = pa.types.is_decimal(field.type) or pa.types.is_integer(field.type)
    number = number or pa.types.is_floating(field.type)
    return Column(safe_text(field.name), right=number, whole=number)
