"""Alarms on a real server: installed as often as one likes, and set off by what runs report."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterator
from datetime import timedelta
from pathlib import Path

import pytest
from prefect.settings import PREFECT_API_EVENTS_RELATED_RESOURCE_CACHE_TTL

from headrace.cli.alarms.catalogue import ALARMS
from headrace.cli.server import ManagedServer
from tests.services_fixtures import free_port
from tests.support.receivers import Hook, receiving
from tests.support.served import Server, clean_environment, wait_until

pytestmark = [pytest.mark.services, pytest.mark.timeout(240)]

ALL = sorted(alarm.name for alarm in ALARMS)
#: Events as runs emit them, in a process of its own; the words behind -c are the arguments.
_EMITTING = """
import json, sys
from prefect.events.worker import EventsWorker
from headrace.coverage import IntervalSet
from headrace.pull.report import ProductReceipt
from headrace.pull.request import PullRequest
from headrace.quota import BreakerChange, Phase
from headrace.run.report import Status
from headrace.checks.report import Breach, Check
from tasks.events import emit_breaches, emit_breaker_change, emit_gaps, emit_if_up_to_date

def breaker(name, before, after, failures):
    emit_breaker_change(BreakerChange(name, Phase(before), Phase(after), failures, 1.0))

def gaps(product, *ranges):
    emit_gaps(product, IntervalSet([tuple(each) for each in ranges]))

def breach(product, check, text):
    emit_breaches([Breach(Check(check), product, 1, "none", text)])

def up_to_date(product, newest):
    receipt = ProductReceipt(product, Status.DONE, newest=newest)
    emit_if_up_to_date(PullRequest(products=(product,)), receipt)

for name, *arguments in json.loads(sys.argv[1]):
    globals()[name](*arguments)
EventsWorker.instance().drain()
"""
_INSTALLING_MISSING = """
import asyncio
from prefect.client.orchestration import get_client
from headrace.cli.alarms.installing import install_missing

async def install():
    async with get_client() as client:
        await install_missing(client)

asyncio.run(install())
"""


@pytest.fixture(scope="module")
def hook() -> Iterator[Hook]:
    with receiving(Hook()) as server:
        yield server


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
    """A webhook block, as its command makes it."""
    done = server.command("alarms", "webhook", "ops", f"{hook.url}/hook")
    assert "headrace alarms install --to webhook/ops --on" in done.stdout
    return "webhook/ops"


def automations(server: Server) -> dict[str, dict]:
    return {each["name"]: each for each in server.ask("POST", "/automations/filter", {})}


def emit(server: Server, *calls: tuple[object, ...]) -> None:
    """Emit events by the functions that runs use."""
    done = subprocess.run(
        [sys.executable, "-c", _EMITTING, json.dumps(calls)],
        env={**server.environment, "PREFECT_API_URL": server.api_url},
        cwd=Path(__file__).parents[2],
        capture_output=True,
        text=True,
        timeout=60,
    )
    assert done.returncode == 0, done.stderr


def messages_about(hook: Hook, subject: str) -> list[dict]:
    return [each for each in hook.received if subject in each["subject"]]


def test_installing_again_changes_nothing_that_a_user_decided(server: Server) -> None:
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


def test_a_block_is_tried_out(server: Server, hook: Hook, block: str) -> None:
    before = len(hook.received)
    tested = server.command("alarms", "test", "--to", block)
    assert "webhook/ops took the message" in tested.stdout
    # Prefect's voice at the end of a process that used a block.
    assert "Still processing" not in tested.stderr + tested.stdout
    assert [each["alarm"] for each in hook.received[before:]] == ["test"]
    closed = f"http://127.0.0.1:{free_port()}/hook"
    server.command("alarms", "webhook", "closed", closed)
    failed = server.command("alarms", "test", "--to", "webhook/closed", check=False)
    assert (failed.returncode, "Traceback" in failed.stderr) == (1, False)
    assert "webhook/closed did not send the message" in failed.stderr
    # The address of a webhook is a secret, also where its server refuses it.
    server.command("alarms", "webhook", "refused", f"{hook.url}/secret-path-404")
    hook.status = 404
    refused = server.command("alarms", "test", "--to", "webhook/refused", check=False)
    hook.status = 200
    assert (refused.returncode, "status 404" in refused.stderr) == (1, True), refused.stderr
    assert "secret-path" not in refused.stderr


def test_where_an_alarm_goes_is_shown_by_the_name_of_its_block(server: Server, block: str) -> None:
    server.command("alarms", "slack", "chat", "https://hooks.slack.com/services/A/B/C")
    for to in (block, "slack-webhook/chat"):
        for words in (("install", "--to", to), ("list",)):
            found = json.loads(server.command("alarms", *words, "--json").stdout)["alarms"]
            assert {tuple(each["to"]) for each in found} == {(to,)}
    [document] = [
        each["id"]
        for each in server.ask("POST", "/block_documents/filter", {})
        if each["name"] == "chat"
    ]
    server.ask("DELETE", f"/block_documents/{document}")
    assert "its block is gone" in server.command("alarms", "list").stdout.replace("\n", " ")


def test_a_notification_that_does_not_arrive_is_no_success(server: Server) -> None:
    """Prefect's blocks keep quiet about it unless they are asked not to."""
    server.command("alarms", "slack", "unreachable", "https://hooks.slack.com/services/A/B/C")
    nowhere = f"http://127.0.0.1:{free_port()}"
    environment = {**server.environment, "HTTPS_PROXY": nowhere}
    unreachable = Server(server.folder, environment, server.api_url)
    words = ("alarms", "test", "--to", "slack-webhook/unreachable")
    failed = unreachable.command(*words, check=False)
    assert failed.returncode == 1, failed.stdout
    assert "slack-webhook/unreachable did not send the message" in failed.stderr
    assert "A/B/C" not in failed.stderr


def test_an_alarm_goes_where_it_is_sent(server: Server, hook: Hook, block: str) -> None:
    """All at once, since the waits would add up."""
    server.command(
        *("alarms", "install", "--to", block, "--on"),
        *("--breaker-open", "12s", "--data-old", "12s"),
    )
    hostile = 'X"-{{ 7 * 7 }}'
    emit(
        server,
        ("gaps", hostile, (5, 11)),
        ("gaps", hostile, (5, 11)),
        ("breaker", "stays-open", "closed", "open", 5),
        ("breaker", "closes", "closed", "open", 5),
        ("breaker", "closes", "half-open", "closed", 0),
        ("up_to_date", "OLD-USD", 734),
    )
    wait_until(lambda: messages_about(hook, hostile), 30, "the gap")
    # A breaker that opens again and again has not closed: the wait does not begin again.
    emit(server, ("breaker", "stays-open", "half-open", "open", 6))
    wait_until(
        lambda: messages_about(hook, "stays-open") and messages_about(hook, "OLD-USD"),
        90,
        "the rest",
    )
    [gap] = messages_about(hook, hostile)
    assert gap["alarm"] == "gap-found"
    assert "7 ids missing in 1 range, the first from 5 to 11" in gap["text"]
    assert gap["facts"]["from_id"] == 5
    [old] = messages_about(hook, "OLD-USD")
    assert (old["alarm"], "trade 734" in old["text"]) == ("data-old", True)
    assert "12 seconds" in old["subject"]
    assert messages_about(hook, "stays-open")[0]["alarm"] == "breaker-open"
    assert messages_about(hook, "closes") == []


def test_a_failed_check_sets_off_one_alarm_for_each_kind_of_breach(
    server: Server, hook: Hook, block: str
) -> None:
    server.command("alarms", "install", "--to", block, "--on")
    emit(
        server,
        ("breach", "CHECKED-USD", "price", "7: '0'"),
        ("breach", "CHECKED-USD", "stale", "2 h old"),
        ("breach", "OTHER-USD", "price", "8: '0'"),
    )
    wait_until(lambda: messages_about(hook, "OTHER-USD"), 30, "the other product")
    wait_until(lambda: len(messages_about(hook, "CHECKED-USD")) > 1, 30, "both kinds")
    emit(server, ("breach", "CHECKED-USD", "price", "again"), ("breach", "LAST-USD", "price", "9"))
    wait_until(lambda: messages_about(hook, "LAST-USD"), 30, "the last product")
    found = {each["subject"]: each for each in messages_about(hook, "CHECKED-USD")}
    assert found.keys() == {"headrace: CHECKED-USD: price", "headrace: CHECKED-USD: stale"}
    assert len(messages_about(hook, "CHECKED-USD")) == 2
    assert {each["alarm"] for each in found.values()} == {"check-failed"}
    assert "7: '0'" in found["headrace: CHECKED-USD: price"]["text"]


def test_runs_that_fail_or_are_partial_set_off_alarms(
    server: Server, hook: Hook, block: str
) -> None:
    server.command("alarms", "install", "--to", block, "--on")
    log = server.folder / "log"
    server.command("sot", "gen", "in.sot", "--records", "400", "--symbols", "2")
    server.command("sot", "write", "in.sot", "--store", str(log))
    volume = log / "volume-0001.sot"
    content = bytearray(volume.read_bytes())
    content[len(content) // 2] ^= 1
    volume.write_bytes(content)
    for _ in range(2):
        partial = server.command("sot", "verify", "--store", str(log), check=False)
        assert partial.returncode == 4
    (log / "store.json").write_text("spoilt")
    failed = server.command("sot", "recover", "out.sot", "--store", str(log), check=False)
    assert failed.returncode == 1

    def alarms_by_subject() -> dict[str, dict]:
        return {each["subject"]: each for each in hook.received}

    wait_until(lambda: "headrace: sot-recover failed" in alarms_by_subject(), 30, "the failed run")
    wait_until(lambda: "headrace: sot-verify is partial" in alarms_by_subject(), 30, "the partial")
    damaged = f"headrace: the log in {log} is damaged"
    wait_until(lambda: damaged in alarms_by_subject(), 30, "the damage")
    found = alarms_by_subject()
    assert {found[damaged]["alarm"], *(each["alarm"] for each in messages_about(hook, "sot-"))} == {
        "chain-broken", "run-failed", "run-partial",
    }  # fmt: skip
    assert str(volume) in found[damaged]["text"]
    assert "store.json" in found["headrace: sot-recover failed"]["text"]
    assert "damaged" in found["headrace: sot-verify is partial"]["text"]
    # Once per flow and per log: the second verification and the recovery are no news.
    subjects = [each["subject"] for each in hook.received]
    assert len(messages_about(hook, "is partial")) == subjects.count(damaged) == 1


def test_prefect_has_no_label_for_the_cause_of_a_failed_run(
    server: Server, hook: Hook, block: str
) -> None:
    """So the second cause within an hour is held back; the documents say why.

    With other labels, or another time, Prefect may be able to separate causes.
    """
    server.command("alarms", "install", "--to", block, "--on")
    log = server.folder / "log-of-two-causes"
    missing = ("sot", "write", "absent.sot", "--store", str(log))
    assert server.command(*missing, check=False).returncode != 0
    wait_until(lambda: messages_about(hook, "sot-write failed"), 30, "the first cause")
    server.command("sot", "gen", "two.sot", "--records", "40", "--symbols", "2")
    log.mkdir(exist_ok=True)
    (log / "store.json").write_text("spoilt")
    spoilt = ("sot", "write", "two.sot", "--store", str(log))
    assert server.command(*spoilt, check=False).returncode != 0
    emit(server, ("gaps", "AFTERWARDS-USD", (1, 2)))
    wait_until(lambda: messages_about(hook, "AFTERWARDS-USD"), 30, "what came later")
    found = {"event": {"name": ["prefect.flow-run.Failed"]}}
    events = [
        each
        for each in server.ask("POST", "/events/filter", {"filter": found})["events"]
        if "sot-write" in [one.get("prefect.resource.name") for one in each["related"]]
    ]
    assert len({each["resource"]["prefect.state-message"] for each in events}) == 2
    assert len(messages_about(hook, "sot-write failed")) == 1
    labels = {label for each in events for label in each["resource"]}
    assert {label.removeprefix("prefect.") for label in labels} == {
        "resource.id", "resource.name", "run-count",
        "state-message", "state-name", "state-timestamp", "state-type",
    }  # fmt: skip
    assert timedelta(minutes=5) == PREFECT_API_EVENTS_RELATED_RESOURCE_CACHE_TTL.value()


def test_an_alarm_of_an_older_version_is_brought_up_to_date_and_stays_on(
    server: Server, block: str
) -> None:
    """`up` does this where the alarm still watches for a name that is no more."""
    server.command("alarms", "install", "--on", "--to", block, "--data-old", "2h")
    old = automations(server)["headrace: data old"]
    trigger = {
        **old["trigger"],
        "expect": ["headrace.up-to-date"],
        "after": ["headrace.up-to-date"],
    }
    server.ask("PUT", f"/automations/{old['id']}", {**_settable(old), "trigger": trigger})
    other = automations(server)["headrace: gap found"]
    own = {**other["trigger"], "expect": ["of.my.own"]}
    server.ask("PUT", f"/automations/{other['id']}", {**_settable(other), "trigger": own})
    done = subprocess.run(
        [sys.executable, "-c", _INSTALLING_MISSING],
        env={**server.environment, "PREFECT_API_URL": server.api_url},
        cwd=Path(__file__).parents[2],
        capture_output=True,
        text=True,
        timeout=60,
    )
    assert done.returncode == 0, done.stderr
    new = automations(server)["headrace: data old"]
    assert new["trigger"]["expect"] == ["headrace.product.up-to-date"] == new["trigger"]["after"]
    assert (new["id"], new["enabled"], new["actions"]) == (old["id"], True, old["actions"])
    assert new["trigger"]["within"] == 7200
    assert automations(server)["headrace: gap found"]["trigger"]["expect"] == ["of.my.own"]


def _settable(automation: dict) -> dict:
    return {
        name: automation[name]
        for name in ("name", "description", "enabled", "tags", "trigger", "actions")
    }


def test_a_block_that_is_not_there_and_a_wait_that_is_none(server: Server) -> None:
    missing = server.command("alarms", "install", "--to", "webhook/absent", check=False)
    assert (missing.returncode, "webhook/absent" in missing.stderr) == (2, True)
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
    of_alarms = "headrace-smtp-mail"
    ours = [
        kind for kind in kinds if kind["slug"].startswith("headrace-") and kind["slug"] != of_alarms
    ]
    assert {kind["slug"] for kind in ours} == {kind["slug"] for kind in first}
    assert all(kind["description"] and "```python" in kind["code_example"] for kind in ours)
