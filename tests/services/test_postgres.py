"""PostgreSQL as we use it: addresses that show no password, errors that name the setting."""

from __future__ import annotations

import os
import time

import pytest

from headrace.postgres import Postgres, PostgresAddress, PostgresRefused, PostgresUnavailable
from tests.services_fixtures import free_port
from tests.support.postgres import (
    PASSWORD,
    PostgresServer,
    postgres,
    postgres_url,
    running_postgres,
)

__all__ = ["postgres", "postgres_url"]

pytestmark = pytest.mark.services

SETTING = "HEADRACE_QUOTA"


def at(url: str, limit_s: float = 2.0) -> Postgres:
    return Postgres(
        PostgresAddress(url, setting=SETTING), application="headrace tests", limit_s=limit_s
    )


def test_a_statement_and_its_rows(postgres_url: str) -> None:
    db = at(postgres_url)
    db.create(["CREATE TABLE IF NOT EXISTS kept (n bigint)"] * 2)
    assert db.execute("INSERT INTO kept VALUES (%s)", (1 << 40,)) == []
    assert db.execute("SELECT n FROM kept") == [(1 << 40,)]
    assert db.version >= 13
    db.close()


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"password": "wrong-secret"}, "authentication failed"),
        ({"user": "stranger"}, "authentication failed"),
        ({"database": "nowhere"}, "does not exist"),
        ({"database": "postgres?sslmode=require"}, "SSL"),
    ],
)
def test_what_is_refused_names_the_setting(
    postgres: PostgresServer, change: dict[str, str], said: str
) -> None:
    with pytest.raises(PostgresRefused) as caught:
        at(postgres.url(**change)).execute("SELECT 1")
    assert said in str(caught.value)
    assert SETTING in str(caught.value)
    assert "wrong-secret" not in str(caught.value)
    assert PASSWORD not in str(caught.value)


def test_nothing_listens_there() -> None:
    with pytest.raises(PostgresUnavailable, match=SETTING):
        at(f"postgres://u:secret@127.0.0.1:{free_port()}/d").execute("SELECT 1")


def test_a_server_that_stands_still_and_one_that_starts_again() -> None:
    with running_postgres() as server:
        db = at(server.url())
        assert db.execute("SELECT 1") == [(1,)]
        server.pause()
        began = time.monotonic()
        with pytest.raises(PostgresUnavailable):
            db.execute("SELECT 1")
        with pytest.raises(PostgresUnavailable):
            db.execute("SELECT 1")  # nor does a new connection get an answer
        assert time.monotonic() - began < 15
        server.go_on()
        assert db.execute("SELECT 1") == [(1,)]
        server.stop()
        server.start()
        assert db.execute("SELECT 1", again=True) == [(1,)]
        server.kill()
        server.start()
        with pytest.raises(PostgresUnavailable):
            db.execute("SELECT 1")
        assert db.execute("SELECT 1") == [(1,)]
        db.close()


def test_a_fork_has_a_connection_of_its_own(postgres_url: str) -> None:
    db = at(postgres_url)
    ((parent,),) = db.execute("SELECT pg_backend_pid()")
    child = os.fork()
    if child == 0:
        ((own,),) = db.execute("SELECT pg_backend_pid()")
        os._exit(0 if own != parent else 1)
    assert os.waitpid(child, 0)[1] == 0
    assert db.execute("SELECT pg_backend_pid()") == [(parent,)]
    db.close()


def test_a_user_without_rights_and_a_standby(postgres: PostgresServer) -> None:
    owner = at(postgres.url(database := postgres.new_database().rpartition("/")[2]))
    owner.execute("CREATE ROLE clerk LOGIN PASSWORD 'clerk'")
    owner.execute("REVOKE CREATE ON SCHEMA public FROM PUBLIC")
    clerk = at(postgres.url(database, user="clerk", password="clerk"))
    with pytest.raises(PostgresRefused, match="Grant the user of HEADRACE_QUOTA"):
        clerk.create(["CREATE TABLE IF NOT EXISTS kept (n bigint)"])
    owner.execute("ALTER ROLE clerk SET default_transaction_read_only = on")
    clerk.close()
    with pytest.raises(PostgresRefused, match="primary"):
        clerk.create(["CREATE TABLE IF NOT EXISTS kept (n bigint)"])
    clerk.close()
    owner.close()
