"""Alarms that go off at what really happens: bad data, throttling, a failing Looker, no runner."""

from __future__ import annotations

import json
import os
import signal
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from prefect.server.events.ordering import PRECEDING_EVENT_LOOKBACK

from headrace.sim import SimulatedExchange, TokenBucket
from headrace.sim.looker import SimulatedLooker
from tests.support.looker import SECRET
from tests.support.receivers import Hook, mail_server, receiving
from tests.support.served import Server, processes_of, served, wait_until

pytestmark = [pytest.mark.services, pytest.mark.timeout(300)]

#: The shortest waits that Prefect takes: each cause lasts an hour otherwise.
WAITS = ("--not-started", "10s", "--throttled", "10s")
#: What is due every 20 s.
LIST = """
deployments:
  - name: often
    entrypoint: flows/ingest.py:ingest
    description: What is new.
    parameters: {products: [BTC-USD]}
    schedules: [{slug: often, interval: 20, timezone: UTC}]
    concurrency_limit: {limit: 1, collision_strategy: CANCEL_NEW}
"""


@pytest.fixture(scope="module")
def hook() -> Iterator[Hook]:
    with receiving(Hook()) as server:
        yield server


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory, hook: Hook) -> Iterator[Server]:
    """A server with all alarms on, whose trades are two hours old when they are fetched."""
    two_hours_ago = datetime.now(UTC) - timedelta(hours=2)
    folder = tmp_path_factory.mktemp("causes")
    (folder / "prefect.yaml").write_text(LIST)
    with (
        SimulatedExchange("BTC-USD:2500", seed=4, now=two_hours_ago) as exchange,
        served(folder, exchange) as started,
    ):
        started.up("--deployments", "prefect.yaml")
        started.command("alarms", "webhook", "ops", hook.url)
        started.command("alarms", "install", "--to", "webhook/ops", "--on", *WAITS)
        yield started


def alarms(hook: Hook, key: str) -> list[dict]:
    return [each for each in hook.received if each["alarm"] == key]


def test_old_trades_breach_a_check(server: Server, hook: Hook) -> None:
    server.command("backfill", "BTC-USD", "--last", "1d")
    assert server.command("check", "BTC-USD", check=False).returncode == 4
    [alarm] = wait_until(lambda: alarms(hook, "check-failed"), 60, "the alarm")
    assert alarm["facts"]["check"] == "stale"
    assert alarm["facts"].keys() >= {"check", "found", "bound", "range", "message"}


def test_a_quota_that_stays_slow(server: Server, hook: Hook) -> None:
    limit = TokenBucket(rate_per_s=20, burst=1)
    with SimulatedExchange("ETH-USD:60000", seed=4, limits=(limit,)) as strict:
        server.command(
            "backfill", "ETH-USD", "--base-url", strict.url, "--rate", "60/s", check=False
        )
        throttled = strict.stats()["throttled"]
    [alarm, *more] = wait_until(lambda: alarms(hook, "throttled"), 90, "the alarm")
    assert not more
    assert throttled >= alarm["facts"]["throttled"] > 0
    assert alarm["facts"]["percent"] < 90
    assert "10 seconds" in alarm["subject"]


def test_a_looker_that_fails(server: Server, hook: Hook) -> None:
    counts = {"dashboard": 420, "look": 3}
    fault = "error,status=500,ask=list,type=dashboard,offset=200"
    with SimulatedLooker(counts=counts, faults=(fault,)) as looker:
        server.environment |= login(looker)
        assert server.command("looker", "extract", check=False).returncode == 4
    [alarm] = wait_until(lambda: alarms(hook, "extraction-incomplete"), 60, "the alarm")
    facts = alarm["facts"]
    assert (facts["types"], facts["failed_items"], facts["missing_ranges"]) == (["dashboard"], 0, 1)
    assert "500" in facts["error"]
    assert looker.url.removeprefix("http://") in alarm["subject"]


def test_a_looker_whose_content_does_not_run(server: Server, hook: Hook) -> None:
    with SimulatedLooker(counts={"dashboard": 4, "look": 3}) as looker:
        looker.library.unknown_fields = {"users.count"}
        server.environment |= login(looker)
        validated = server.command("looker", "validate", "--json", check=False)
    assert validated.returncode == 4
    report = json.loads(validated.stdout)
    [alarm] = wait_until(lambda: alarms(hook, "content-broken"), 60, "the alarm")
    assert alarm["facts"]["types"] == report["types"] == {"dashboard": 1}
    assert alarm["facts"]["errors"] == len(report["broken"]) > 1
    assert "users.count" in alarm["facts"]["first"]
    assert looker.url.removeprefix("http://") in alarm["subject"]


def login(looker: SimulatedLooker) -> dict[str, str]:
    return {
        "LOOKERSDK_BASE_URL": looker.url,
        "LOOKERSDK_CLIENT_ID": "headrace",
        "LOOKERSDK_CLIENT_SECRET": SECRET,
        "HEADRACE_LOOKER_RATE": "none",
    }


@pytest.mark.timeout(600)
def test_which_events_prefect_holds_back(server: Server) -> None:
    """A run that starts soon after it was planned follows an event that the scheduler never sent.

    Prefect waits for that event so long before it hands the others to automations; the documents
    and the text of an alarm say so.
    """
    server.up("--deployments", "prefect.yaml", "--schedules")
    try:
        planned = {
            "deployments": {"name": {"any_": ["often"]}},
            "flow_runs": {"state": {"type": {"any_": ["COMPLETED", "FAILED"]}}},
        }
        [run, *_] = wait_until(lambda: server.ask("POST", "/flow_runs/filter", planned), 300, "run")
    finally:
        server.up("--deployments", "prefect.yaml", "--no-schedules")
    of_the_run = {"resource": {"id": [f"prefect.flow-run.{run['id']}"]}}
    ending = f"prefect.flow-run.{run['state_name']}"

    def events() -> dict[str, dict]:
        found = server.ask("POST", "/events/filter", {"filter": of_the_run})["events"]
        return {each["event"]: each for each in found}

    wait_until(lambda: ending in events(), 30, "the event of its end")
    reported = events()
    states = server.ask("GET", f"/flow_run_states/?flow_run_id={run['id']}")
    [plan] = [each["id"] for each in states if each["name"] == "Scheduled"]
    by_id = {each["id"]: each for each in reported.values()}
    first = reported[ending]
    while first["follows"] in by_id:
        first = by_id[first["follows"]]
    assert first["event"] != ending
    assert (first["follows"], plan in by_id) == (plan, False)
    assert timedelta(minutes=15) == PRECEDING_EVENT_LOOKBACK


@contextmanager
def standing_still(server: Server) -> Iterator[None]:
    """Schedules on, and what serves them stopped, as on a machine that swaps."""
    server.up("--deployments", "prefect.yaml", "--schedules")
    serving = [each for each in processes_of(server.home) if "deployments" in str(each.cmdline())]
    assert len(serving) == 2
    for process in serving:
        os.kill(process.pid, signal.SIGSTOP)
    try:
        yield
    finally:
        for process in serving:
            os.kill(process.pid, signal.SIGCONT)
        server.up("--deployments", "prefect.yaml", "--no-schedules")


def test_schedules_that_stand_still(server: Server, hook: Hook) -> None:
    """Prefect takes a minute to notice."""
    with standing_still(server):
        [alarm] = wait_until(lambda: alarms(hook, "not-served"), 180, "the alarm")
    assert alarm["subject"] == "headrace: schedules do not run"
    assert "ingest/often" in alarm["text"]


@pytest.mark.slow
@pytest.mark.timeout(1800)
def test_a_run_that_was_due_and_did_not_start(server: Server, hook: Hook) -> None:
    """Prefect keeps such an event from automations for minutes, since it saw none before it."""
    with standing_still(server):
        alarm = wait_until(lambda: alarms(hook, "not-started"), 1500, "the alarm")[0]
    assert alarm["subject"] == "headrace: ingest/often was due and did not start"
    assert f"due at {datetime.now(UTC):%Y-%m-%d}" in alarm["text"]


def test_a_message_by_mail(server: Server, tmp_path: Path) -> None:
    with mail_server() as mail:
        server.command(
            *("alarms", "mail", "post", "--host", "127.0.0.1", "--port", str(mail.port)),
            *("--security", "none", "--sender", "headrace@example.com"),
            *("--to", "ops@example.com", "--to", "night@example.com"),
        )
        server.command("alarms", "install", "--to", "headrace-smtp-mail/post", "--on")
        missing = str(tmp_path / "none.sot")
        assert server.command("sot", "write", missing, check=False).returncode != 0
        [(recipients, message)] = wait_until(lambda: list(mail.received), 60, "the mail")
    assert recipients == ["ops@example.com", "night@example.com"]
    assert message["Subject"] == "headrace: sot-write failed"
    assert "none.sot" in message.get_content()


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("slack", "ops", "https://example.com/x"), "does not begin with https://hooks.slack.com"),
        (("webhook", "ops", "example.com"), "does not begin with https://"),
        (("webhook", "a/b", "https://example.com"), "cannot be the name of a block"),
        (("mail", "x", "--host", "h", "--sender", "me", "--to", "you@h"), "sender"),
        (("mail", "x", "--host", "h", "--sender", "a@h", "--to", "b@h", "--username", "me"),
         "HEADRACE_SMTP_PASSWORD"),
    ],
)  # fmt: skip
def test_an_address_that_is_none(server: Server, words: tuple[str, ...], said: str) -> None:
    done = server.command("alarms", *words, check=False)
    assert (done.returncode, said in done.stderr) == (2, True), done.stderr
