"""The tutorial and the how-tos do what they say, command by command.

Short pages share a Prefect server, an exchange and other servers on loopback, which stand for those
that a page names; each has a folder and a state of its own.
"""

from __future__ import annotations

import json
import os
import re
import shutil
import signal
import subprocess
import sys
from collections.abc import Iterator, Mapping
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from headrace.cli.server import ManagedServer
from headrace.sim import SimulatedExchange
from headrace.sim.keyed import SimulatedKeyedExchange, make_keys
from headrace.sim.looker import SimulatedLooker
from tests.services_fixtures import (
    ACCESS_KEY,
    SECRET_KEY,
    free_port,
    make_bucket,
    moto_url,
    seaweed_url,
)
from tests.support.documents import DOCS, PROJECT, blocks_of, pages_with_commands, script_of
from tests.support.forward_proxy import forward_proxy, make_certificate, tls_in_front
from tests.support.looker import SECRET
from tests.support.receivers import Hook, mail_server, receiving
from tests.support.served import BIN, Server, clean_environment, processes_of, wait_until

__all__ = ["moto_url", "seaweed_url"]

pytestmark = [pytest.mark.services, pytest.mark.slow, pytest.mark.timeout(900)]

#: Of the shared exchange.
PRODUCTS = ("BTC-USD:2500", "ETH-USD:1200", "XYZ-USD:100", "ABC-USD:100", "BTC-EUR:100")
#: Of the lake that many pages begin with.
STORED = ("BTC-USD", "ETH-USD")
BUCKETS = ("bucket", "worm")
#: The id of the first key in the list that a page has written.
KEY_ID = (
    f"$({sys.executable} -c "
    "\"import json; print(json.load(open('keys.json'))['keys'][0]['key_id'])\")"
)

#: The address of the server that `headrace up` has started.
MANAGED = (
    f"$(headrace status --json | {sys.executable} -c "
    "'import json, sys; print(json.load(sys.stdin)[\"api_url\"])')"
)


def run_page(
    page: str,
    folder: Path,
    *,
    stand_ins: Mapping[str, str] | None = None,
    given: Mapping[str, str] | None = None,
    **settings: str,
) -> str:
    """Run all commands of a page in a folder, and end what they leave running; what they wrote.

    Args:
        page: the name of the file in `docs`, without its ending.
        folder: where they are typed.
        stand_ins, given: as `script_of` has them.
        settings: variables of the environment.
    """
    home = folder / "home"
    own = {"HEADRACE_HOME": str(home), **settings}
    # No pipe: a worker that the page leaves behind holds it open until its runs have ended.
    output = folder.parent / f"{folder.name}.txt"
    with output.open("wb") as sink:
        shell = subprocess.Popen(
            ["bash", "-c", script_of(DOCS / f"{page}.md", stand_ins=stand_ins or {}, given=given)],
            cwd=folder,
            env=clean_environment(**own, PATH=f"{BIN}{os.pathsep}{os.environ['PATH']}"),
            stdout=sink,
            stderr=subprocess.STDOUT,
            start_new_session=True,
        )
    try:
        shell.wait(timeout=800)
        said = output.read_text()
        assert shell.returncode == 0, said
        assert "Traceback" not in said, said
    finally:
        subprocess.run(
            [BIN / "headrace", "down"], env=clean_environment(HEADRACE_HOME=str(home)), check=True
        )
        try:
            os.killpg(shell.pid, signal.SIGKILL)
        except ProcessLookupError:  # it left nothing behind
            shell.wait()
    assert processes_of(home) == []
    return said


@dataclass(frozen=True, slots=True)
class World:
    """What stands for the servers that pages name.

    Attributes:
        exchange: the exchange, whose address commands have.
        looker, other_looker: two Lookers.
        keyed: an exchange with the API keys of the pages.
        s3, aws: two servers that answer as AWS does.
        hook: takes what is sent to a collector.
        lake: a lake of two products, with its unified table.
        settings: the environment of all commands.
    """

    exchange: SimulatedExchange
    looker: SimulatedLooker
    other_looker: SimulatedLooker
    keyed: SimulatedKeyedExchange
    s3: str
    aws: str
    hook: Hook
    lake: Path
    settings: dict[str, str]

    def run(
        self,
        page: str,
        folder: Path,
        *,
        stand_ins: Mapping[str, str] | None = None,
        given: Mapping[str, str] | None = None,
        **settings: str,
    ) -> str:
        """Run a page in a folder that has the lake."""
        shutil.copytree(self.lake, folder / "data/lake")
        return run_page(
            page, folder, stand_ins=stand_ins, given=given, **{**self.settings, **settings}
        )


@pytest.fixture(scope="session")
def world(
    tmp_path_factory: pytest.TempPathFactory, seaweed_url: str, moto_url: str
) -> Iterator[World]:
    folder = tmp_path_factory.mktemp("world")
    for bucket in BUCKETS:
        make_bucket(seaweed_url, bucket)
    with ExitStack() as open_until_the_end:
        enter = open_until_the_end.enter_context
        exchange = enter(SimulatedExchange(*PRODUCTS, seed=4))
        managed = ManagedServer(folder / "home")
        api_url = managed.up().api_url
        open_until_the_end.callback(managed.down)
        settings = {
            "PREFECT_API_URL": api_url,
            "HEADRACE_COINBASE_URL": exchange.url,
            "HEADRACE_RATE": "none",
            "AWS_ENDPOINT_URL": seaweed_url,
            "AWS_ACCESS_KEY_ID": ACCESS_KEY,
            "AWS_SECRET_ACCESS_KEY": SECRET_KEY,
            "AWS_DEFAULT_REGION": "us-east-1",
        }
        own = clean_environment(**settings, HEADRACE_HOME=str(folder / "home"))
        lake = folder / "data/lake"
        subprocess.run(
            [BIN / "headrace", "backfill", *STORED, "--transform"],
            cwd=folder,
            env=own,
            check=True,
            capture_output=True,
        )
        yield World(
            exchange=exchange,
            looker=enter(SimulatedLooker(counts={"dashboard": 30, "look": 5})),
            other_looker=enter(SimulatedLooker(counts={"dashboard": 0, "look": 0})),
            keyed=enter(SimulatedKeyedExchange(keys=make_keys(2), limit=20)),
            s3=seaweed_url,
            aws=moto_url,
            hook=enter(receiving(Hook())),
            lake=lake,
            settings=settings,
        )


def answer_in(said: str) -> dict[str, Any]:
    """The JSON document that a command of a page printed."""
    [answer] = [json.loads(line) for line in said.splitlines() if line.startswith('{"')]
    assert isinstance(answer, dict)
    return answer


def undocumented(page: str, answer: dict[str, Any]) -> set[str]:
    """The fields of a JSON document, and of what is listed in it, that a page does not describe."""
    [described] = [
        each.text for each in blocks_of(DOCS / f"{page}.md") if each.text.startswith('{"run"')
    ]
    rows = [row for listed in answer.values() if isinstance(listed, list) for row in listed]
    fields = {*answer, *(field for row in rows for field in row)}
    return fields - set(re.findall(r'"(\w+)"', described))


def test_the_tutorial(tmp_path: Path) -> None:
    """Three minutes: it waits for runs of a schedule, as its reader does."""
    ports = {"8080": str(free_port()), "8090": str(free_port())}
    said = run_page("tutorial", tmp_path, stand_ins=ports)
    held = [int(n.replace(",", "")) for n in re.findall(r"parts with ([\d,]+) trades", said)]
    assert len(held) == 2
    assert 20_000 <= held[0] < held[1]
    assert said.splitlines().count("exit code 1") == 2
    assert (tmp_path / "alarms.txt").read_text().count('"alarm": "run-failed"') == 2


def test_products(world: World, tmp_path: Path) -> None:
    world.run("products", tmp_path)
    kept = json.loads((tmp_path / "data/lake/_headrace/products-coinbase.json").read_text())
    assert [each["name"] for each in kept["sets"]] == ["majors", "usd"]
    assert [each["id"] for each in kept["products"] if each["removed"]] == ["ABC-USD"]


def test_audit(world: World, tmp_path: Path) -> None:
    said = world.run("audit", tmp_path)
    assert said.count("complete and sound") >= 6
    assert undocumented("audit", answer_in(said)) == set()


def test_checks(world: World, tmp_path: Path) -> None:
    said = world.run("checks", tmp_path)
    assert undocumented("checks", answer_in(said)) == set()


def test_checkpoints(world: World, tmp_path: Path) -> None:
    world.run("checkpoints", tmp_path, given={"show BTC-USD": "headrace checkpoint rebuild"})


def test_doctor(world: World, tmp_path: Path) -> None:
    world.run("doctor", tmp_path)


def test_reading(world: World, tmp_path: Path) -> None:
    world.run("reading", tmp_path)
    assert (tmp_path / "highest.parquet").is_file()
    assert "<html" in (tmp_path / "lake.html").read_text()


def test_unified(world: World, tmp_path: Path) -> None:
    world.run("unified", tmp_path, given={"--all": "headrace products sync"})


def test_settings(world: World, tmp_path: Path) -> None:
    assert "HEADRACE_LAKE" in world.run("settings", tmp_path)


def test_leases(world: World, tmp_path: Path) -> None:
    name = (
        f"$(headrace lease list --json | {sys.executable} -c "
        '\'import json, sys; print(json.load(sys.stdin)["leases"][0]["name"])\')'
    )
    said = world.run(
        "leases",
        tmp_path,
        stand_ins={"coinbase/BTC-USD@2b302a8e:ingest": name},
        given={"lease list": "headrace ingest BTC-USD"},
    )
    assert re.search(r"coinbase/BTC-USD@[0-9a-f]{8}:ingest is not held", said)


def test_quota(world: World, tmp_path: Path) -> None:
    host = world.exchange.url.removeprefix("http://")
    world.run(
        "quota",
        tmp_path,
        stand_ins={"api.exchange.coinbase.com": host},
        given={"quota status": "headrace ingest BTC-USD"},
        HEADRACE_RATE="50/s",
    )


def test_lake(world: World, tmp_path: Path) -> None:
    world.run(
        "lake",
        tmp_path,
        stand_ins={"KEY_ID": KEY_ID},
        given={
            "verify_evidence": f"cp {PROJECT}/verify_evidence.py . && headrace evidence key make "
            "&& headrace audit --sign && headrace evidence key show --public > keys.json"
        },
    )


def test_manifests(world: World, tmp_path: Path) -> None:
    world.run(
        "manifests",
        tmp_path,
        stand_ins={"/srv/anchors": "anchors"},
        given={
            "key make": "git init -q anchors",
            "snapshot take": "headrace looker extract",
        },
        **looker_settings(world),
    )


def test_evidence(world: World, tmp_path: Path) -> None:
    world.run(
        "evidence",
        tmp_path,
        stand_ins={"KEY_ID": KEY_ID},
        given={
            "verify_evidence.py lake": f"cp {PROJECT}/verify_evidence.py . && "
            "headrace audit --sign && headrace audit --sign && "
            "cp data/lake/_headrace/manifests/heads/000000001.json head-of-last-year.json && "
            "headrace looker extract && headrace looker snapshot take --sign && "
            "headrace sot gen in.sot --records 20000 --symbols 8 && headrace sot write in.sot && "
            "headrace sot head --signed > head-1.json && "
            "headrace sot head --signed > head-2.json && "
            "headrace sot recover out.sot && "
            "headrace sot prove 7 1000 --head head-2.json --record > proof.json"
        },
        **looker_settings(world),
    )


def looker_settings(world: World) -> dict[str, str]:
    return {
        "LOOKERSDK_BASE_URL": world.looker.url,
        "LOOKERSDK_CLIENT_ID": "headrace",
        "LOOKERSDK_CLIENT_SECRET": SECRET,
        "HEADRACE_LOOKER_RATE": "none",
    }


def test_looker(world: World, tmp_path: Path) -> None:
    world.run(
        "looker",
        tmp_path,
        stand_ins={
            "https://company.looker.com:19999": world.looker.url,
            "LOOKERSDK_CLIENT_ID=id": "LOOKERSDK_CLIENT_ID=headrace",
            "LOOKERSDK_CLIENT_SECRET=secret": f"LOOKERSDK_CLIENT_SECRET={SECRET}",
            "https://other.looker.com:19999": world.other_looker.url,
            "https://dev.looker.com:19999": world.looker.url,
            "https://prod.looker.com:19999": world.other_looker.url,
            "LOOKERSDK_TARGET_CLIENT_ID=id": "LOOKERSDK_TARGET_CLIENT_ID=headrace",
            "LOOKERSDK_TARGET_CLIENT_SECRET=secret": f"LOOKERSDK_TARGET_CLIENT_SECRET={SECRET}",
            "promote 17": "promote 2",
        },
        HEADRACE_LOOKER_RATE="none",
    )
    assert (tmp_path / "content/dashboard/17.json").is_file()
    assert (tmp_path / "fetched.sqlite").is_file()


def test_sot(world: World, tmp_path: Path) -> None:
    world.run(
        "sot",
        tmp_path,
        stand_ins={"/mnt/worm/heads.jsonl": "worm.jsonl", "/srv/anchors": "anchors"},
        given={
            "sot gen": "headrace evidence key make && git init -q anchors",
        },
    )


def test_requests(world: World, tmp_path: Path) -> None:
    said = world.run(
        "requests",
        tmp_path,
        stand_ins={
            "https://api.example.com": world.keyed.url,
            "/orders": "/api/request",
            "/accounts": "/api/request",
            "=key-1,key-2": "=" + ",".join(key.get_secret_value() for key in make_keys(2)),
            "8082": str(free_port()),
        },
    )
    assert re.search(
        r"\d+ s: \d+ successes, \d+ failures, \d+ expired, [\d.]+/s, latency mean \d+ ms "
        r"p99 \d+ ms, queue \d+, dead letters \d+, graveyard 0",
        said,
    )


def test_metrics(world: World, tmp_path: Path) -> None:
    world.run(
        "metrics",
        tmp_path,
        stand_ins={
            "/var/lib/node_exporter": str(tmp_path),
            "http://127.0.0.1:4318": world.hook.url,
        },
        AWS_ENDPOINT_URL=world.aws,
    )
    assert (
        'headrace_runs_total{flow="ingest",status="done"} 1'
        in (tmp_path / "headrace.prom").read_text()
    )
    assert "/v1/metrics" in {path for path, _ in world.hook.bodies}
    assert "HeadraceErrorRate" in (tmp_path / "headrace-rules.yml").read_text()


def test_scaling(world: World, tmp_path: Path) -> None:
    world.run(
        "scaling",
        tmp_path,
        # A reader makes one of the two, and no other page has a pool of that name.
        stand_ins={f"create headrace --type {kind}": f"create {kind} --type {kind}"
                   for kind in ("kubernetes", "ecs")},
        given={"work-pool": f"ln -s {PROJECT}/deploy deploy"},
    )  # fmt: skip


def test_server(tmp_path: Path) -> None:
    assert "Database: " in run_page("server", tmp_path)


def test_upgrading(world: World, tmp_path: Path) -> None:
    run_page(
        "upgrading",
        tmp_path,
        given={"headrace down": "headrace up"},
        HEADRACE_COINBASE_URL=world.exchange.url,
    )


def test_deployments(world: World, tmp_path: Path) -> None:
    """First on a managed server, then on the shared one with a work pool."""
    parts = " ".join(str(PROJECT / each) for each in ("prefect.yaml", "flows", "tasks", "blocks"))
    said = run_page(
        "deployments",
        tmp_path,
        stand_ins={"http://127.0.0.1:4200/api": MANAGED},
        given={
            "work-pool create": f"headrace down && cp -r {parts} . && "
            f"export PREFECT_API_URL={world.settings['PREFECT_API_URL']}",
            "match=": "headrace products sync",
            # A reader is not as fast.
            "--spread 4": "until prefect deployment inspect pull-part/spread | "
            "grep \": 'READY'\" > ready.txt; do sleep 1; done",
        },
        HEADRACE_COINBASE_URL=world.exchange.url,
        HEADRACE_RATE="none",
    )
    assert said.count("Completed") >= 2


@pytest.fixture
def certificate(tmp_path: Path) -> Path:
    """Of the servers to which alarms go."""
    return make_certificate(tmp_path / "server.pem", "127.0.0.1", "hooks.slack.com")


@pytest.fixture
def hook(certificate: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Hook]:
    """Takes what is sent to it, and what is sent to Slack, through a proxy."""
    with (
        receiving(Hook()) as hook,
        tls_in_front(hook.server_port, certificate) as tls_port,
        forward_proxy({"hooks.slack.com": tls_port}) as proxy,
    ):
        monkeypatch.setenv("HTTPS_PROXY", proxy.url)
        for trusted in ("SSL_CERT_FILE", "REQUESTS_CA_BUNDLE"):  # of mail, of Slack
            monkeypatch.setenv(trusted, str(certificate))
        yield hook


@pytest.fixture
def server(hook: Hook, tmp_path: Path) -> Iterator[Server]:
    """A Prefect server that reaches no other host than the hook."""
    own = {"HEADRACE_HOME": str(tmp_path / "served"), "PREFECT_HOME": str(tmp_path / "prefect")}
    managed = ManagedServer(tmp_path / "served")
    api_url = managed.up().api_url
    yield Server(tmp_path, clean_environment(**own, PREFECT_API_URL=api_url), api_url)
    managed.down()


def test_alarms(server: Server, hook: Hook, certificate: Path, tmp_path: Path) -> None:
    """Also what arrives: in Slack, at an address, and at a mail server that wants a login."""

    def emit(product: str) -> None:
        resource = f"headrace.product.{product}"
        words = ("event", "emit", "headrace.product.incomplete", "--resource-id", resource)
        server.prefect(*words, "--resource", f"prefect.resource.name={product}")

    folder = tmp_path / "page"
    folder.mkdir()
    with mail_server(certificate, login=("headrace", "secret")) as mail:
        run_page(
            "alarms",
            folder,
            stand_ins={
                "https://alerts.example.com/x": f"{hook.url}/x",
                "--host smtp.example.com": f"--host 127.0.0.1 --port {mail.port}",
                "http://127.0.0.1:4200/api": server.api_url,
            },
            PREFECT_API_URL=server.api_url,
        )
        wait_until(lambda: len(hook.received) > 1, 90, "the message to Slack")
        server.command("alarms", "install", "--to", "webhook/ops", "--on")
        emit("HOOK-USD")
        wait_until(lambda: len(hook.received) > 2, 90, "the message to the address")
        server.command("alarms", "install", "--to", "headrace-smtp-mail/ops", "--on")
        emit("MAIL-USD")
        [(recipients, message)] = wait_until(lambda: mail.received, 90, "the mail")
    assert [path for path, _ in hook.bodies] == ["/x", "/services/A/B/C", "/x"]
    tested, slack, address = hook.received
    assert tested["alarm"] == "test"
    assert "An audit of TEST found 7 ids missing" in json.dumps(slack)
    assert (address["alarm"], "HOOK-USD" in address["subject"]) == ("gap-found", True)
    shown, shown_slack = (
        json.loads(each.text) for each in blocks_of(DOCS / "alarms.md") if each.language == "json"
    )
    assert shown.keys() == address.keys() == tested.keys()
    assert shown_slack.keys() == slack.keys()
    assert shown_slack["attachments"][0].keys() == slack["attachments"][0].keys()
    assert (recipients, mail.logins) == (["ops@example.com"], ["headrace"])
    assert "MAIL-USD" in message["Subject"]


def test_every_page_is_run() -> None:
    """A page with commands has a test of its name here."""
    tested = {name.removeprefix("test_").removeprefix("the_") for name in globals()}
    pages = {page.stem.replace("-", "_") for page in pages_with_commands()}
    assert pages - tested == set()
