"""PostgreSQL for tests: one server, started and stopped by pid on loopback.

with running_postgres() as server:
    server.new_database()  # its URL, password included
    server.kill()          # a crash; `start` recovers
"""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from itertools import count
from pathlib import Path

import psutil
import psycopg
import pytest
from psycopg import sql

from deploy.postgres import make_cluster, programs_folder, unprivileged_user
from headrace.errors import ConfigurationError
from tests.services_fixtures import free_port

USER, PASSWORD = "headrace", "p@ss:w/rd of a test"
_QUOTED = "p%40ss%3Aw%2Frd%20of%20a%20test"
START_LIMIT_S = 30.0
_NUMBERS = count(1)


@pytest.fixture(scope="session")
def postgres() -> Iterator[PostgresServer]:
    """One server for the session; a test takes a database of its own."""
    with running_postgres() as server:
        yield server


@pytest.fixture
def postgres_url(postgres: PostgresServer) -> str:
    """A schema without tables, which takes far less time than a database of its own."""
    return postgres.new_schema()


@dataclass
class PostgresServer:
    """A server, running or not."""

    programs: Path
    folder: Path
    port: int
    user: str | None
    process: subprocess.Popen[bytes] | None = field(default=None, repr=False)

    def url(self, database: str = "postgres", *, user: str = USER, password: str = _QUOTED) -> str:
        """Where a database is reached."""
        return f"postgres://{user}:{password}@127.0.0.1:{self.port}/{database}"

    def new_database(self) -> str:
        """The URL of an empty database."""
        name = f"test_{os.getpid()}_{next(_NUMBERS)}"
        with psycopg.connect(self.url(), autocommit=True) as connection:
            connection.execute(sql.SQL("CREATE DATABASE {}").format(sql.Identifier(name)))
        return self.url(name)

    def new_schema(self) -> str:
        """The URL of the common database, with an empty schema of its own."""
        name = f"test_{os.getpid()}_{next(_NUMBERS)}"
        with psycopg.connect(self.url(), autocommit=True) as connection:
            connection.execute(sql.SQL("CREATE SCHEMA {}").format(sql.Identifier(name)))
        return self.url(f"postgres?options=-csearch_path%3D{name}")

    def start(self) -> None:
        """Start it and wait until it answers."""
        with (self.folder / "server.log").open("ab") as log:
            self.process = subprocess.Popen(
                [
                    *(self.programs / "postgres", "-D", self.folder / "data", "-p", str(self.port)),
                    *("-k", self.folder, "-c", "listen_addresses=127.0.0.1", "-c", "fsync=off"),
                ],
                cwd=self.folder,
                user=self.user,
                stdout=log,
                stderr=log,
            )
        deadline = time.monotonic() + START_LIMIT_S
        while True:
            try:
                psycopg.connect(self.url()).close()
            except psycopg.OperationalError:
                if self.process.poll() is not None or time.monotonic() > deadline:
                    said = (self.folder / "server.log").read_text()[-2000:]
                    raise RuntimeError(f"PostgreSQL did not start: {said}") from None
                time.sleep(0.05)
            else:
                return

    def stop(self) -> None:
        """End it in order; connections are closed."""
        self._end(signal.SIGINT)

    def kill(self) -> None:
        """End it as a crash does: nothing is written any more."""
        self._end(signal.SIGQUIT)

    def pause(self) -> None:
        """It neither answers nor closes its connections."""
        self._signal_all(signal.SIGSTOP)

    def go_on(self) -> None:
        """End a pause."""
        self._signal_all(signal.SIGCONT)

    def _end(self, how: signal.Signals) -> None:
        if self.process is None:
            return
        self.go_on()
        self.process.send_signal(how)
        try:
            self.process.wait(timeout=20)
        except subprocess.TimeoutExpired:
            self._signal_all(signal.SIGKILL)
            self.process.wait(timeout=10)
        self.process = None

    def _signal_all(self, what: signal.Signals) -> None:
        """To the server and to the process of each connection, which has a session of its own."""
        assert self.process is not None
        parent = psutil.Process(self.process.pid)
        for one in [parent, *parent.children(recursive=True)]:
            try:
                one.send_signal(what)
            except psutil.NoSuchProcess:
                continue  # a connection that ended meanwhile


@contextmanager
def running_postgres() -> Iterator[PostgresServer]:
    """A new server; skips the test where it cannot be had."""
    programs = programs_folder()
    if programs is None:
        pytest.skip("no PostgreSQL on this machine (Debian: apt-get install postgresql)")
    try:
        user = unprivileged_user()
    except ConfigurationError as error:
        pytest.skip(str(error))
    # A socket's path must be short, and another user must reach the folder.
    folder = Path(tempfile.mkdtemp(prefix="headrace-pg-"))
    server = PostgresServer(programs, folder, free_port(), user)
    try:
        make_cluster(programs, folder, superuser=USER, password=PASSWORD, user=user)
        server.start()
        yield server
    finally:
        server.stop()
        shutil.rmtree(folder)
