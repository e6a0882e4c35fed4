"""Queries over a lake: a DuckDB in memory that may read the lake and nothing else."""

from __future__ import annotations

import re
import tempfile
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from difflib import get_close_matches
from typing import TYPE_CHECKING, Final

import duckdb
import pyarrow as pa

from headrace.amounts import counted
from headrace.errors import HeadraceError
from headrace.lake import Lake
from headrace.query.exceptions import QueryFailed, QueryRefused
from headrace.query.files import PROTOCOL, LakeFiles
from headrace.query.views import TABLES, create_views

if TYPE_CHECKING:
    from duckdb import DuckDBPyConnection

DEFAULT_MEMORY: Final = "2GB"
#: Rows that are handed over at once; also the row groups of a Parquet file that is written.
BATCH_ROWS: Final = 122_880

_READ_ONLY_HINT = (
    "A query reads the lake and nothing else: no other files, no network, no extensions, "
    "no settings. Statements are SELECT (FROM, WITH, VALUES, PIVOT ... IN), DESCRIBE, SUMMARIZE, "
    "SHOW and EXPLAIN"
)
_UNKNOWN_TABLE = re.compile(
    r"Catalog Error: Table (?:Function )?with name (?P<name>.+?) does not exist"
)
#: Not the SQL's fault.
_FAILURES = (
    duckdb.FatalException,
    duckdb.InternalException,
    duckdb.IOException,
    duckdb.OutOfMemoryException,
)


class Session:
    """Runs one query after another.

    Args:
        connection: prepared by `open_session`.
        files: what it reads.
        spilled: the folder for what does not fit in memory.
    """

    def __init__(self, connection: DuckDBPyConnection, files: LakeFiles, spilled: str) -> None:
        self.files = files
        self.spilled = spilled
        self._connection = connection

    @contextmanager
    def stream(self, sql: str) -> Iterator[pa.RecordBatchReader]:
        """The rows that `sql` gives, as a reader of record batches; they are made as it is read.

        Raises:
            QueryRefused: the text is broken, or is not one statement that only reads.
            QueryFailed: the machine's memory or disk did not suffice.
            TableMissing, TableDamaged, TableTooNew, StoreError: the lake cannot be read.
        """
        statement = _checked(sql)
        self.files.failure = None
        self._connection.execute("BEGIN TRANSACTION READ ONLY")
        try:
            relation = self._connection.sql(statement)
            if relation is None:
                raise QueryRefused("the statement gives no rows", hint=_READ_ONLY_HINT)
            with relation.to_arrow_reader(BATCH_ROWS) as reader:
                yield reader
        except (duckdb.Error, pa.ArrowException, RuntimeError, OSError) as error:
            raise self._explained(error) from error
        finally:
            self._connection.rollback()

    def interrupt(self) -> None:
        """End what runs at this moment; may be called from another thread."""
        self._connection.interrupt()

    def _explained(self, error: Exception) -> Exception:
        """The lake's own error if one was behind it, else DuckDB's in a form of ours."""
        if self.files.failure is not None:
            return self.files.failure
        if not isinstance(error, duckdb.Error):
            return error if isinstance(error, HeadraceError | OSError) else _failed(error)
        if unknown := _UNKNOWN_TABLE.match(str(error)):
            return _no_table(unknown["name"])
        if isinstance(error, duckdb.PermissionException):
            return QueryRefused(str(error).strip(), hint=_READ_ONLY_HINT)
        return _failed(error) if isinstance(error, _FAILURES) else QueryRefused(str(error).strip())


def _no_table(name: str) -> QueryRefused:
    """What there is instead, and not what DuckDB calls close: tables of its own."""
    name = name.strip('"')
    close = get_close_matches(name.lower(), TABLES, n=1, cutoff=0.7)
    meant = f"Did you mean {close[0]}? " if close else ""
    return QueryRefused(f"there is no table {name}", hint=f"{meant}There are {', '.join(TABLES)}")


def _failed(error: Exception) -> QueryFailed:
    words = " ".join(str(error).split())
    short = isinstance(error, duckdb.OutOfMemoryException)
    return QueryFailed(
        f"the query broke off: {words}",
        hint="Give it more with --memory, or ask for less at once" if short else "",
    )


@contextmanager
def open_session(lake: Lake, *, memory: str = DEFAULT_MEMORY) -> Iterator[Session]:
    """A DuckDB over `lake`, with the views and macros of `headrace.query.views`.

    Args:
        lake: is only read.
        memory: what DuckDB may use, as in `2GB`; beyond it, sorts and groups go to a temporary
            folder.

    Raises:
        QueryRefused: `memory` is no amount of memory.
    """
    with ExitStack() as opened:
        spilled = opened.enter_context(tempfile.TemporaryDirectory(prefix="headrace-query-"))
        connection = opened.enter_context(duckdb.connect())
        files = LakeFiles(lake)
        connection.register_filesystem(files)
        try:
            connection.execute("SET memory_limit = ?", [memory])
        except duckdb.Error as error:
            raise QueryRefused(f"{memory!r} is no amount of memory", hint="Write 2GB") from error
        connection.execute("SET temp_directory = ?", [spilled])
        connection.execute("SET TimeZone = 'UTC'")
        create_views(connection)
        files.listing = True
        for lock in (
            f"SET allowed_directories = ['{PROTOCOL}://']",
            "SET autoinstall_known_extensions = false",
            "SET autoload_known_extensions = false",
            "SET enable_external_access = false",
            "SET lock_configuration = true",
        ):
            connection.execute(lock)
        yield Session(connection, files, spilled)


def _checked(sql: str) -> str:
    """The text of the one statement in it, which only reads.

    Raises:
        QueryRefused: it cannot be parsed, or is another kind of statement.
    """
    try:
        statements = duckdb.extract_statements(sql)
    except duckdb.Error as error:
        raise QueryRefused(str(error).strip()) from error
    if len(statements) != 1:
        found = counted(len(statements), "statement") if statements else "no statement"
        raise QueryRefused(f"the text holds {found}", hint="Give one; WITH names what it builds on")
    kind = statements[0].type
    if kind not in (duckdb.StatementType.SELECT, duckdb.StatementType.EXPLAIN):
        name = "PIVOT without IN" if kind.name == "MULTI" else kind.name
        raise QueryRefused(f"{name} statements are refused", hint=_READ_ONLY_HINT)
    return statements[0].query
