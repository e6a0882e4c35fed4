"""Alarms on a real server: installed as often as one likes, and set off by what runs report."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from datetime import UTC, datetime
from http.server import BaseHTTPRequestHandler, HTTPServer
from uuid import uuid4

import pytest

from headrace.cli.server import ManagedServer
from tests.support.served import Server, clean_environment, wait_until

pytestmark = [pytest.mark.services, pytest.mark.timeout(240)]

ALL = ["headrace: breaker open", "headrace: data old", "headrace: gap found"]


class Hook(HTTPServer):
    """Somebody who is to be told: keeps what arrives."""

    def __init__(self) -> None:
        self.told: list[dict] = []
        super().__init__(("127.0.0.1", 0), _Handler)


class _Handler(BaseHTTPRequestHandler):
    server: Hook

    def do_POST(self) -> None:
        body = self.rfile.read(int(self.headers["Content-Length"]))
        self.server.told.append(json.loads(body))
        self.send_response(204)
        self.end_headers()

    def log_message(self, *_: object) -> None:
        """Nothing on stderr."""


@pytest.fixture(scope="module")
def hook() -> Iterator[Hook]:
    with Hook() as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield server
        server.shutdown()


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    folder = tmp_path_factory.mktemp("alarms")
    own = {"HEADRACE_HOME": str(folder / "home"), "PREFECT_HOME": str(folder / "prefect-home")}
    managed = ManagedServer(folder / "home")
    api_url = managed.up().api_url
    yield Server(folder, clean_environment(**own), api_url)
    managed.down()


@pytest.fixture(scope="module")
def block(server: Server, hook: Hook) -> str:
    """A webhook block, as one makes it in the UI."""
    server.prefect("block", "register", "-m", "prefect.blocks.webhook")
    kind = server.ask("GET", "/block_types/slug/webhook")
    [schema, *_] = server.ask(
        "POST",
        "/block_schemas/filter",
        {"block_schemas": {"block_type_id": {"any_": [kind["id"]]}}},
    )
    server.ask(
        "POST",
        "/block_documents/",
        {
            "name": "ops",
            "block_type_id": kind["id"],
            "block_schema_id": schema["id"],
            "data": {"url": f"http://127.0.0.1:{hook.server_port}/hook"},
        },
    )
    return "webhook/ops"


def automations(server: Server) -> dict[str, dict]:
    return {each["name"]: each for each in server.ask("POST", "/automations/filter", {})}


def emit(server: Server, name: str, subject: str, **facts: object) -> None:
    event = {
        "id": str(uuid4()),
        "event": f"headrace.{name}",
        "occurred": datetime.now(UTC).isoformat(),
        "resource": {
            "prefect.resource.id": f"headrace.product.{subject}",
            "prefect.resource.name": subject,
        },
        "payload": facts,
    }
    server.ask("POST", "/events", [event])


def told_of(hook: Hook, subject: str) -> list[dict]:
    return [each for each in hook.told if subject in each["subject"]]


def test_installing_again_changes_nothing_that_somebody_decided(server: Server) -> None:
    server.command("alarms", "install")
    first = automations(server)
    assert sorted(first) == ALL
    assert not any(each["enabled"] for each in first.values())
    assert all(each["description"] for each in first.values())
    switched = first["headrace: gap found"]["id"]
    server.ask("PATCH", f"/automations/{switched}", {"enabled": True})
    server.command("alarms", "install", "--breaker-open", "30m")
    second = automations(server)
    assert {name: each["id"] for name, each in second.items()} == {
        name: each["id"] for name, each in first.items()
    }
    assert second["headrace: breaker open"]["trigger"]["within"] == 1800
    assert "30 minutes" in second["headrace: breaker open"]["description"]
    assert [name for name, each in second.items() if each["enabled"]] == ["headrace: gap found"]


def test_an_alarm_goes_where_it_is_sent(server: Server, hook: Hook, block: str) -> None:
    """All three at once, since the waits would add up."""
    server.command(
        *("alarms", "install", "--to", block, "--on"),
        *("--breaker-open", "12s", "--data-old", "12s"),
    )
    hostile = 'X"-{{ 7 * 7 }}'
    emit(server, "audit.gap", hostile, missing_ids=7, ranges=1, from_id=5, to_id=11)
    emit(server, "audit.gap", hostile, missing_ids=7, ranges=1, from_id=5, to_id=11)
    emit(server, "breaker.opened", "stays-open", failures=5)
    emit(server, "breaker.opened", "closes", failures=5)
    emit(server, "breaker.closed", "closes", failures=0)
    emit(server, "up-to-date", "OLD-USD", newest=734)
    wait_until(lambda: told_of(hook, hostile), 30, "the gap")
    # A breaker that opens again and again has not closed: the wait does not begin anew.
    emit(server, "breaker.opened", "stays-open", failures=6)
    wait_until(lambda: told_of(hook, "stays-open") and told_of(hook, "OLD-USD"), 90, "the rest")
    [gap] = told_of(hook, hostile)
    assert gap["alarm"] == "gap-found"
    assert "7 ids missing in 1 range(s), the first from 5 to 11" in gap["text"]
    assert gap["facts"]["from_id"] == 5
    [old] = told_of(hook, "OLD-USD")
    assert (old["alarm"], "trade 734" in old["text"]) == ("data-old", True)
    assert "12 seconds" in old["subject"]
    assert told_of(hook, "stays-open")[0]["alarm"] == "breaker-open"
    assert told_of(hook, "closes") == []


def test_a_block_that_is_not_there_and_a_wait_that_is_none(server: Server) -> None:
    missing = server.command("alarms", "install", "--to", "webhook/nobody", check=False)
    assert (missing.returncode, "webhook/nobody" in missing.stderr) == (2, True)
    wrong = server.command("alarms", "install", "--data-old", "soon", check=False)
    assert (wrong.returncode, "--data-old" in wrong.stderr) == (2, True)
    short = server.command("alarms", "install", "--data-old", "1s", check=False)
    assert (short.returncode, "10 seconds" in short.stderr) == (2, True)


def test_removing(server: Server) -> None:
    assert json.loads(server.command("alarms", "remove", "--json").stdout) == {"removed": ALL}
    assert automations(server) == {}
    assert json.loads(server.command("alarms", "list", "--json").stdout) == {"alarms": []}


def test_blocks_are_registered_as_often_as_one_likes(server: Server) -> None:
    first = json.loads(server.command("blocks", "register", "--json").stdout)["blocks"]
    again = json.loads(server.command("blocks", "register", "--json").stdout)["blocks"]
    assert first == again
    kinds = server.ask("POST", "/block_types/filter", {})
    ours = [kind for kind in kinds if kind["slug"].startswith("headrace-")]
    assert {kind["slug"] for kind in ours} == {kind["slug"] for kind in first}
    assert all(kind["description"] and "```python" in kind["code_example"] for kind in ours)
