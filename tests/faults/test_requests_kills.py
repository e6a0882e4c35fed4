"""SIGKILL of `headrace requests send`: the books add up at once, and after a replay all is sent."""

from __future__ import annotations

import json
import os
import signal
import subprocess
from pathlib import Path
from typing import Any

import pytest

from headrace.cli.server import RunningServer
from headrace.sim.keyed import SimulatedKeyedExchange, make_keys
from tests.support.prefect_server import headrace_home, prefect_server
from tests.support.processes import HEADRACE, ended, wait_until

__all__ = ["headrace_home", "prefect_server"]

pytestmark = [
    pytest.mark.flows,
    pytest.mark.services,
    pytest.mark.slow,
    pytest.mark.timeout(600),
]

REQUESTS, KILLS = 1200, 4
IN_FLIGHT = 8
SECRETS = [key.get_secret_value() for key in make_keys(3)]


class Sender:
    """`headrace requests …` as processes of their own, on one queue."""

    def __init__(self, home: Path, queue: str, url: str) -> None:
        self._home = home
        self._queue = ("--queue", queue)
        self._access = ("--base-url", url, "--rate", "50/s", "--in-flight", str(IN_FLIGHT))

    def send(self, *words: str) -> subprocess.Popen[str]:
        return self._start("send", *words, *self._access)

    def run(self, *words: str) -> Any:
        """What another command of the queue says; it must end well."""
        end = ended(self._start(*words))
        assert end.code == 0, end
        return end.summary

    def _start(self, *words: str) -> subprocess.Popen[str]:
        return subprocess.Popen(
            [HEADRACE, "--log-level", "debug", "requests", *words, *self._queue, "--json"],
            env={
                **os.environ,
                "HEADRACE_HOME": str(self._home),
                "HEADRACE_API_KEYS": ",".join(SECRETS),
            },
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )


def test_killed_at_several_moments_then_sent_to_the_end(
    tmp_path: Path, headrace_home: Path, prefect_server: RunningServer
) -> None:
    assert prefect_server
    source, queue = tmp_path / "requests.jsonl", "killed"
    with (
        source.open("w") as lines,
        SimulatedKeyedExchange(keys=make_keys(3), limit=50) as sim,
    ):
        for number in range(REQUESTS):
            body = {"req_id": str(number)}
            get = {"path": "/api/request", "query": body}
            post = {"method": "POST", "path": "/api/request", "body": body}
            lines.write(json.dumps(post if number % 3 == 0 else get) + "\n")
        lines.flush()
        sender = Sender(headrace_home, queue, sim.url)

        def accepted() -> int:
            return sum(key.accepted for key in sim.key_stats())

        said, unknown = "", 0
        for kill in range(1, KILLS + 1):
            process = sender.send(str(source))
            wait_until(lambda least=kill * 150: accepted() > least, process)  # type: ignore[misc]
            process.kill()
            end = ended(process)
            assert end.code == -signal.SIGKILL
            said += end.errors
            books = sender.run("status")
            assert books["add_up"], books
            assert books["accepted"] <= REQUESTS
            assert books["taken"] <= IN_FLIGHT
            assert books["succeeded"] <= accepted() <= books["succeeded"] + books["taken"] + unknown
            unknown += books["taken"]  # from now on they may have been carried out twice

        end = ended(sender.send(str(source)))
        said += end.said + end.errors
        assert end.code in (0, 4), end
        books = sender.run("status")
        assert (books["accepted"], books["queued"], books["taken"]) == (REQUESTS, 0, 0)
        assert books["succeeded"] + books["graveyard"] == REQUESTS
        assert books["graveyard"] <= unknown

        sender.run("graveyard", "replay", "--unknown")
        assert ended(sender.send()).code == 0
        books = sender.run("status")
        assert (books["succeeded"], books["graveyard"], books["add_up"]) == (REQUESTS, 0, True)
        assert REQUESTS <= accepted() <= REQUESTS + unknown
    kept = [path.read_bytes() for path in (headrace_home / "requests").rglob("*")]
    for secret in SECRETS:
        assert secret not in said
        assert not [content for content in kept if secret.encode() in content]
