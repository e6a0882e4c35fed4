"""Requests over several keys through the flow and the command."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from headrace.cli.main import main
from headrace.sim.keyed import SimulatedKeyedExchange, make_keys

pytestmark = pytest.mark.flows

SECRETS = [key.get_secret_value() for key in make_keys(3)]
NEAR = "uniform:low=0,high=0.005"


class Ended(NamedTuple):
    code: int
    out: str
    err: str

    @property
    def summary(self) -> dict[str, Any]:
        [line] = self.out.splitlines()
        found: dict[str, Any] = json.loads(line)
        return found


@pytest.fixture
def sim() -> Iterator[SimulatedKeyedExchange]:
    settings = {"keys": make_keys(3), "limit": 50, "inbound": NEAR, "outbound": NEAR}
    with SimulatedKeyedExchange(**settings) as served:
        yield served


@pytest.fixture
def headrace(monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]) -> Any:
    """`headrace requests …` in this process; no key may stand in anything that it says."""
    monkeypatch.setattr("headrace.cli.running.bounded_exit", lambda code, drain_s: sys.exit(code))
    monkeypatch.setenv("HEADRACE_API_KEYS", ",".join(SECRETS))

    def run(*arguments: object) -> Ended:
        words = ["headrace", "--log-level", "debug", "requests", *map(str, arguments)]
        monkeypatch.setattr(sys, "argv", words)
        capfd.readouterr()
        code = 0
        try:
            main()
        except SystemExit as ended:
            code = int(ended.code or 0)
        said = capfd.readouterr()
        assert "Traceback" not in said.err, said.err
        assert not [secret for secret in SECRETS if secret in said.out + said.err]
        return Ended(code, said.out, said.err)

    return run


def test_a_file_its_graveyard_and_a_replay(
    headrace: Any, sim: SimulatedKeyedExchange, tmp_path: Path
) -> None:
    source, queue = tmp_path / "in.jsonl", ("--queue", tmp_path.name[-60:])
    lines = [{"path": "/api/request", "query": {"req_id": n}} for n in range(30)]
    lines += [{"method": "POST", "path": "/api/request", "body": {"req_id": "p"}}]
    lines += [{"path": "/absent"}, {"path": "/absent", "ttl_s": 1e-9}]
    source.write_text("".join(json.dumps(line) + "\n" for line in lines))
    access = ("--base-url", sim.url, "--rate", "50/s", *queue, "--json")
    sent = headrace("send", source, *access)
    assert sent.code == 4
    found = sent.summary
    assert (found["accepted"], found["success"], found["graveyard"]) == (33, 31, 1)
    assert (found["expired"], found["kept"], found["status"]) == (1, 0, "partial")
    assert sum(key["successes"] for key in found["keys"]) == 31
    assert sum(key.accepted for key in sim.key_stats()) == 31
    listed = headrace("graveyard", "list", *queue, "--json").summary
    [buried] = listed["requests"]
    assert (buried["path"], buried["tries"], buried["outcome"]) == ("/absent", 1, "refused")
    assert "404" in buried["reason"]
    assert headrace("graveyard", "replay", *queue, "--json").summary["replayed"] == 1
    again = headrace("send", *access).summary
    assert (again["accepted"], again["resumed"], again["graveyard"]) == (0, 1, 1)
    purged = headrace("graveyard", "purge", "--yes", *queue, "--json").summary
    assert purged["purged"] == 1
    books = headrace("status", *queue, "--json").summary
    assert books["add_up"]
    assert (books["accepted"], books["succeeded"], books["expired"]) == (33, 31, 1)
    assert (books["purged"], books["graveyard"]) == (1, 0)


def test_made_requests_may_expire_as_far_as_is_allowed(
    headrace: Any, sim: SimulatedKeyedExchange, tmp_path: Path
) -> None:
    options = ("--base-url", sim.url, "--rate", "50/s", "--count", 40, "--ttl-s", 60, "--json")
    sent = headrace("send", *options, "--queue", tmp_path.name[-60:], "--offer", 1000)
    assert (sent.code, sent.summary["success"], sent.summary["status"]) == (0, 40, "done")
    options = ("--base-url", sim.url, "--rate", "50/s", "--count", 3, "--ttl-s", 1e-9, "--json")
    late = headrace("send", *options, "--queue", tmp_path.name[-60:])
    assert (late.code, late.summary["expired"]) == (4, 3)
    allowed = headrace("send", *options, "--allow-expired", 100, "--queue", tmp_path.name[-60:])
    assert (allowed.code, allowed.summary["expired"]) == (0, 3)
    assert sum(key.accepted for key in sim.key_stats()) == 40


def test_what_cannot_be_used_is_refused_in_a_line(headrace: Any, tmp_path: Path) -> None:
    bad = tmp_path / "bad.jsonl"
    bad.write_text('{"path": "/a"}\nnonsense\n')
    access = ("--base-url", "http://127.0.0.1:9")
    for arguments, words in (
        ((bad, *access), "line 2"),
        ((tmp_path / "absent", *access), "No such file"),
        ((*access, "--keys", SECRETS[0]), "keys themselves stand in no parameter"),
        ((*access, "--rate", "fast"), "fast"),
        ((bad, *access, "--count", 3), "source excludes"),
        (("--base-url", "nowhere"), "nowhere"),
    ):
        ended = headrace("send", *arguments)
        assert ended.code == 2, ended
        assert words in ended.err
    assert headrace("graveyard", "list", "--queue", "absent").code == 1
