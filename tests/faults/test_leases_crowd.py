"""Twenty processes want one lease while its holder is stopped: one at any time, in every store."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from tests.services_fixtures import (
    ACCESS_KEY,
    BUCKET,
    SECRET_KEY,
    free_port,
    make_bucket,
    running,
    seaweed_url,
)
from tests.support.postgres import postgres, postgres_url

__all__ = ["postgres", "postgres_url", "seaweed_url"]

pytestmark = [pytest.mark.services, pytest.mark.slow]

PROCESSES, ROUNDS = 20, 1

#: moto compares and writes in two steps; a server that answers one request at a time does not.
SERIAL_MOTO = """
import sys
from moto.server import DomainDispatcherApplication, create_backend_app
from werkzeug.serving import run_simple
run_simple("127.0.0.1", int(sys.argv[1]), DomainDispatcherApplication(create_backend_app))
"""


@contextmanager
def in_seaweed(request: pytest.FixtureRequest) -> Iterator[str]:
    url = request.getfixturevalue("seaweed_url")
    yield f"s3://{BUCKET}/crowd?region=us-east-1&endpoint_url={url}"


@contextmanager
def in_moto(request: pytest.FixtureRequest) -> Iterator[str]:
    port = free_port()
    url = f"http://127.0.0.1:{port}"
    command = [sys.executable, "-c", SERIAL_MOTO, str(port)]
    with running(command, request.getfixturevalue("tmp_path"), url):
        make_bucket(url)
        yield f"s3://{BUCKET}/crowd?region=us-east-1&endpoint_url={url}"


@contextmanager
def in_postgres(request: pytest.FixtureRequest) -> Iterator[str]:
    yield request.getfixturevalue("postgres_url")


@pytest.fixture(params=[in_seaweed, in_moto, in_postgres])
def location(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", ACCESS_KEY)
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", SECRET_KEY)
    with request.param(request) as location:
        yield location


def crowd(location: str, processes: int, rounds: int, folder: Path) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [
            sys.executable,
            "-m",
            "tests.lease_crowd",
            location,
            str(processes),
            str(rounds),
            str(folder),
        ],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )


def test_one_holds_it_and_a_stopped_holder_commits_nothing(location: str, tmp_path: Path) -> None:
    stopped = crowd(location, 1, 1, tmp_path)
    assert stopped.stdout is not None
    assert stopped.stdout.readline() == "holding\n"
    stopped.send_signal(signal.SIGSTOP)
    others = crowd(location, PROCESSES, ROUNDS, tmp_path)
    others.communicate(timeout=115)
    os.kill(stopped.pid, signal.SIGCONT)
    said, _ = stopped.communicate("go on\n", timeout=20)
    assert others.returncode == 0
    assert said.startswith("lost: ")
    tokens = [int(line) for line in (tmp_path / "tokens").read_text().split()]
    assert len(tokens) == PROCESSES * ROUNDS
    assert tokens == sorted(set(tokens))
