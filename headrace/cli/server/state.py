"""The folder of the managed processes: their records, who uses the server, what is served.

{HEADRACE_HOME}/prefect/            0700
    prefect.db                      Prefect's database (SQLite, write-ahead log)
    port                            the port that was used last
    control.lock  users.lock        see docs/locks.md
    processes/{name}.json           who runs (see `ProcessRecord`)
    deployments.json                what is served (see `ServingNote`)
    logs/{name}.log                 its output; the one before as {name}.log.1
"""

from __future__ import annotations

import os
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import msgspec

from headrace.errors import OTHER_STATE_FOLDER, ConfigurationError, PlaceError
from headrace.locks import locked, open_lock, try_lock

#: The name of the Prefect server among the managed processes.
SERVER = "server"

_LOG_LIMIT_BYTES = 10 * 2**20


class StateFolderError(PlaceError, ConfigurationError):
    """The state folder cannot be made or written."""

    said = "the state folder {where} cannot be used ({reason})"
    way_out = OTHER_STATE_FOLDER


class ProcessRecord(msgspec.Struct, frozen=True, kw_only=True):
    """A process that we started.

    Attributes:
        name: what it is to us, for example `server`.
        pid: its process id, which the system may long have given to another.
        token: identifies it, since a pid may be reused; the process has it in its environment.
        started_at: seconds since the epoch, UTC.
        port: the loopback port it listens on; of what runs beside the server, the server's.
        kept: it stays until `headrace down`; otherwise it ends with its last user.
        ending: it has begun to end, though it may still answer; it must not be used any more.
    """

    name: str
    pid: int
    token: str
    started_at: float
    port: int | None = None
    kept: bool = True
    ending: bool = False


class StateFolder:
    """Paths and notes under `{home}/prefect`, made on construction for the user alone.

    Raises:
        StateFolderError: it cannot be made, or is not ours to write.
    """

    def __init__(self, home: Path) -> None:
        # Children run elsewhere, so that a relative path would mean another place to them.
        self.path = home.expanduser().absolute() / "prefect"
        self._records = self.path / "processes"
        self._logs = self.path / "logs"
        try:
            for folder in (self.path, self._records, self._logs):
                folder.mkdir(mode=0o700, parents=True, exist_ok=True)
            self.path.chmod(0o700)
        except OSError as error:
            raise StateFolderError(self.path, error.strerror or str(error)) from error

    @property
    def database(self) -> Path:
        """Prefect's SQLite file."""
        return self.path / "prefect.db"

    @property
    def control_lock(self) -> Path:
        """Held while something is started or stopped here."""
        return self.path / "control.lock"

    @property
    def users_lock(self) -> Path:
        """Held, shared, by every command that uses the server."""
        return self.path / "users.lock"

    def database_bytes(self) -> int:
        """Size of Prefect's database with its write-ahead log."""
        return sum(part.stat().st_size for part in self.path.glob(f"{self.database.name}*"))

    def record_path(self, name: str) -> Path:
        """Where the note on the process `name` lies."""
        return self._records / f"{name}.json"

    def record_names(self) -> list[str]:
        """Names of all processes that there is a note on, alive or not."""
        return sorted(path.stem for path in self._records.glob("*.json"))

    def read_record(self, name: str) -> ProcessRecord | None:
        """Return the note on the process `name`.

        None when there is none, or none that can be read: a server without a record ends by itself
        (see `launch`), so that nothing is lost by starting another.
        """
        try:
            return msgspec.json.decode(self.record_path(name).read_bytes(), type=ProcessRecord)
        except (FileNotFoundError, msgspec.DecodeError):
            return None

    def write_record(self, record: ProcessRecord) -> None:
        """Replace the note on a process; readers see the old one or the new one."""
        self.replace(self.record_path(record.name), msgspec.json.encode(record))

    def remove_record(self, name: str) -> None:
        """Forget the process `name`."""
        self.record_path(name).unlink(missing_ok=True)

    def last_port(self) -> int | None:
        """Return the port the server used last, so that bookmarks and settings stay true."""
        try:
            return int((self.path / "port").read_text())
        except (FileNotFoundError, ValueError):
            return None

    def remember_port(self, port: int) -> None:
        """Prefer this port next time."""
        self.replace(self.path / "port", str(port).encode())

    def log_path(self, name: str) -> Path:
        """Where the process `name` writes what it has to say."""
        return self._logs / f"{name}.log"

    def turn_log(self, name: str) -> None:
        """Put a log aside that has grown beyond 10 MiB; the one put aside before goes."""
        path = self.log_path(name)
        if path.exists() and path.stat().st_size > _LOG_LIMIT_BYTES:
            path.replace(path.with_suffix(".log.1"))

    def last_lines(self, name: str, count: int = 15, *, since: int = 0) -> list[str]:
        """Return the end of a process's log, of what was written from byte `since` on."""
        path = self.log_path(name)
        if not path.exists():
            return []
        with path.open("rb") as log:
            log.seek(max(since, path.stat().st_size - 16 * 2**10))
            return log.read().decode(errors="replace").rstrip().splitlines()[-count:]

    @staticmethod
    def replace(path: Path, content: bytes) -> None:
        """Write a file of this folder as a whole: readers see the old one or the new one."""
        fresh = path.with_suffix(f".{os.getpid()}.tmp")
        try:
            fresh.touch(mode=0o600)
            fresh.write_bytes(content)
            fresh.replace(path)
        except OSError as error:
            fresh.unlink(missing_ok=True)
            raise StateFolderError(path.parent, error.strerror or str(error)) from error


class UsersLock:
    """Counts the users of something without a counter: each holds the same file, shared."""

    def __init__(self, path: Path) -> None:
        self._path = path

    @contextmanager
    def held(self) -> Iterator[None]:
        """Be a user until the block ends, or until this process dies.

        Raises:
            LockTimeout: a process that was stopped while it looked (see `is_unused`) keeps it.
        """
        with locked(self._path, shared=True):
            yield

    def is_unused(self) -> bool:
        """Whether no process is a user now."""
        with open_lock(self._path) as descriptor:
            # Another that asks the same at this very moment looks like a user; ask again.
            for _ in range(3):
                if try_lock(descriptor):
                    return True
                time.sleep(0.01)
            return False


#: The name of the serving process among the managed ones.
DEPLOYMENTS = "deployments"


class ServingNote(msgspec.Struct, frozen=True, kw_only=True):
    """What is served.

    Attributes:
        token: of the process that says so; a note of an earlier one counts for nothing.
        deployments: `flow/name` of each, once they can be started.
        plan: the file they come from.
        folder: where runs work; a relative `lake` is relative to it.
        problem: why nothing is served, if so.
        restarts: how often the supervisor had to restart the runner.
    """

    token: str
    deployments: list[str] = []
    plan: str = ""
    folder: str = ""
    problem: str = ""
    restarts: int = 0


def note_path(folder: StateFolder) -> Path:
    """Where the note lies."""
    return folder.path / "deployments.json"


def read_note(folder: StateFolder, token: str) -> ServingNote | None:
    """The note of the process with this token, if it has written one yet."""
    try:
        note = msgspec.json.decode(note_path(folder).read_bytes(), type=ServingNote)
    except (FileNotFoundError, msgspec.DecodeError):
        return None
    return note if note.token == token else None


def write_note(folder: StateFolder, note: ServingNote) -> None:
    """Replace the note."""
    folder.replace(note_path(folder), msgspec.json.encode(note))
