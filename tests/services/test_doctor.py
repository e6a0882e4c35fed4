"""`headrace doctor` against planted faults: each is found, named, and left as it was."""

from __future__ import annotations

import hashlib
import http.server
import json
import os
import re
import shutil
import signal
import sqlite3
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from headrace.cli.main import app
from headrace.lake import open_lake
from headrace.quota import QuotaConfig, open_gate, parse_rates
from headrace.sim import SimulatedExchange
from tests.s3_proxy import Answer, s3_proxy
from tests.services_fixtures import ACCESS_KEY, BUCKET, SECRET_KEY, free_port, seaweed_url

__all__ = ["seaweed_url"]

pytestmark = pytest.mark.services

Doctor = Callable[..., "Report"]


class Report:
    """What `headrace doctor --json` said."""

    def __init__(self, code: int, said: dict[str, Any]) -> None:
        self.code = code
        self.said = said
        self.checks = {each["check"]: each for each in said["checks"]}

    def only(self, check: str, severity: str) -> str:
        """The words of the one finding that is not fine, which must be of this check."""
        bad = [
            (each["check"], finding)
            for each in self.said["checks"]
            for finding in each["findings"]
            if finding["severity"] != "ok"
        ]
        assert [(name, finding["severity"]) for name, finding in bad] == [(check, severity)], bad
        [(_, finding)] = bad
        assert finding["remedy"]
        assert self.code == (1 if severity == "problem" else 0)
        assert self.said["ok"] == (severity != "problem")
        return f"{finding['what']} {finding['remedy']}"


@pytest.fixture(scope="module")
def sim() -> Iterator[SimulatedExchange]:
    with SimulatedExchange("BTC-USD:10") as exchange:
        yield exchange


@pytest.fixture
def home(tmp_path: Path) -> Path:
    return tmp_path / "home"


@pytest.fixture
def lake(tmp_path: Path) -> Path:
    return tmp_path / "lake"


@pytest.fixture
def doctor(
    home: Path,
    lake: Path,
    sim: SimulatedExchange,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> Doctor:
    """Runs the command; whatever it finds, every file below `tmp_path` is as it was."""
    for name in list(os.environ):
        if name.startswith(("PREFECT_", "HEADRACE_", "AWS_")):
            monkeypatch.delenv(name)
    monkeypatch.chdir(tmp_path)
    settings = {
        "HEADRACE_HOME": home,
        "HEADRACE_LAKE": lake,
        "HEADRACE_COINBASE_URL": sim.url,
        "PREFECT_HOME": tmp_path / "prefect-client",
        "AWS_EC2_METADATA_DISABLED": "true",
    }
    for name, value in settings.items():
        monkeypatch.setenv(name, str(value))

    def run(*options: str) -> Report:
        before = tree(tmp_path)
        result = CliRunner().invoke(app, ["doctor", "--json", *options])
        assert tree(tmp_path) == before
        [line] = result.stdout.splitlines()
        return Report(result.exit_code, json.loads(line))

    return run


def tree(folder: Path) -> dict[str, str]:
    """Every file and its content, every folder and its mode."""
    return {
        str(path.relative_to(folder)): (
            hashlib.sha256(path.read_bytes()).hexdigest()
            if path.is_file()
            else oct(path.stat().st_mode)
        )
        for path in folder.rglob("*")
    }


@contextmanager
def stub_api(answers: dict[str, Any]) -> Iterator[str]:
    """A server that answers some paths of a Prefect API."""

    class Handler(http.server.BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            path = self.path.removeprefix("/api/").partition("?")[0]
            answer = answers.get(path)
            if self.headers.get("Upgrade"):
                self.send_response(101)
                self.end_headers()
                return
            body = json.dumps(answer).encode()
            self.send_response(404 if answer is None else 200)
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *_: object) -> None:
            """Be quiet."""

    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_port}/api"
    finally:
        server.shutdown()
        server.server_close()
        thread.join()


def sound_api(**more: Any) -> dict[str, Any]:
    from importlib.metadata import version

    return {"health": True, "admin/version": version("prefect"), "ready": {"message": "OK"}, **more}


def used_quota(home: Path, sim: SimulatedExchange, rate: str = "10/s") -> Path:
    """The quota file of the exchange, as runs leave it."""
    config = QuotaConfig(name=f"127.0.0.1:{sim.port}", rates=parse_rates(rate))
    with open_gate(home / "quota", config) as gate:
        gate.take()
    return home / "quota" / f"quota-127.0.0.1%3A{sim.port}.sqlite"


def test_nothing_is_wrong_with_a_fresh_installation(doctor: Doctor) -> None:
    report = doctor()

    assert report.code == 0
    assert {each["severity"] for each in report.said["checks"]} == {"ok"}


def test_nor_with_one_that_was_used(
    doctor: Doctor, home: Path, lake: Path, sim: SimulatedExchange, monkeypatch: pytest.MonkeyPatch
) -> None:
    used_quota(home, sim)
    open_lake(lake).raw("coinbase")
    with stub_api(sound_api()) as url:
        monkeypatch.setenv("PREFECT_API_URL", url)
        # A permit for the request to the exchange is booked, so the quota's file may change.
        result = CliRunner().invoke(app, ["doctor", "--json"])

    report = json.loads(result.stdout)
    assert result.exit_code == 0
    assert {each["severity"] for each in report["checks"]} == {"ok"}, report
    assert [path.name for path in lake.iterdir()] == ["_headrace"]


def test_a_prefect_api_that_is_down(doctor: Doctor, monkeypatch: pytest.MonkeyPatch) -> None:
    url = f"http://127.0.0.1:{free_port()}/api"
    monkeypatch.setenv("PREFECT_API_URL", url)

    said = doctor().only("server", "problem")
    assert url in said
    assert "PREFECT_API_URL" in said


def test_an_address_that_is_no_prefect_api(
    doctor: Doctor, sim: SimulatedExchange, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PREFECT_API_URL", sim.url)

    assert "not as a Prefect API" in doctor().only("server", "problem")


def test_a_prefect_server_of_another_major_version(
    doctor: Doctor, monkeypatch: pytest.MonkeyPatch
) -> None:
    with stub_api(sound_api(**{"admin/version": "2.20.4"})) as url:
        monkeypatch.setenv("PREFECT_API_URL", url)
        assert "2.20.4" in doctor().only("server", "problem")


def test_a_checkpoint_of_a_later_version(doctor: Doctor, monkeypatch: pytest.MonkeyPatch) -> None:
    stored = {"schema_version": 99, "lake": "/x", "source": "coinbase", "product": "BTC-USD"}
    document = {"name": "coinbase-btc-usd-1f3a9c2e", "data": {"checkpoint": stored}}
    path = "block_types/slug/headrace-checkpoint/block_documents"
    with stub_api(sound_api(**{path: [document]})) as url:
        monkeypatch.setenv("PREFECT_API_URL", url)
        said = doctor().only("checkpoints", "problem")

    assert "schema version 99" in said
    assert "coinbase-btc-usd-1f3a9c2e" in said


def test_a_damaged_database_of_prefect(doctor: Doctor, home: Path) -> None:
    (home / "prefect").mkdir(parents=True, mode=0o700)
    database = home / "prefect" / "prefect.db"
    with sqlite3.connect(database) as connection:
        connection.execute("CREATE TABLE flow_run (id)")
        connection.executemany("INSERT INTO flow_run VALUES (?)", [("x" * 500,)] * 200)
    connection.close()
    content = bytearray(database.read_bytes())
    content[4096:12000] = b"\xff" * 7904
    database.write_bytes(content)

    assert str(database) in doctor().only("database", "problem")


def test_a_damaged_quota_file(doctor: Doctor, home: Path, sim: SimulatedExchange) -> None:
    path = used_quota(home, sim)
    path.write_bytes(b"no database at all" * 100)

    assert str(path) in doctor().only("quota", "warning")


def test_a_quota_file_of_a_later_version(
    doctor: Doctor, home: Path, sim: SimulatedExchange
) -> None:
    path = home / "quota" / "quota-other.example.com.sqlite"
    used_quota(home, sim).rename(path)
    (home / "quota" / f"breaker-127.0.0.1%3A{sim.port}.sqlite").unlink()
    with sqlite3.connect(path) as connection:
        connection.execute("PRAGMA user_version = 77")
    connection.close()

    assert "version 77" in doctor().only("quota", "problem")


def test_a_breaker_that_is_open(doctor: Doctor, home: Path, sim: SimulatedExchange) -> None:
    config = QuotaConfig(name="api.example.com", rates=parse_rates("none"))
    with open_gate(home / "quota", config) as gate:
        for _ in range(5):
            with gate.admit() as admission:
                admission.sending()
                admission.answered(status=503)

    said = doctor().only("breaker", "problem")
    assert "api.example.com" in said
    assert "5 failures in a row" in said


def test_the_exchange_is_not_asked_while_its_breaker_is_open(
    doctor: Doctor, home: Path, sim: SimulatedExchange
) -> None:
    config = QuotaConfig(name=f"127.0.0.1:{sim.port}", rates=parse_rates("10/s"))
    with open_gate(home / "quota", config) as gate:
        for _ in range(5):
            with gate.admit() as admission:
                admission.sending()
                admission.answered(status=503)
    asked = sim.stats()["requests"]
    report = doctor()

    assert "breaker is open" in report.checks["clock"]["findings"][0]["what"]
    assert sim.stats()["requests"] == asked


@pytest.mark.parametrize("ahead_s", [120, -120])
def test_a_clock_that_is_two_minutes_off(
    doctor: Doctor, ahead_s: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    with SimulatedExchange("BTC-USD:10", clock_ahead_s=ahead_s) as exchange:
        monkeypatch.setenv("HEADRACE_COINBASE_URL", exchange.url)
        said = doctor().only("clock", "problem")

    assert ("behind" if ahead_s > 0 else "ahead of") in said
    assert any(f"{seconds} s" in said for seconds in (119, 120, 121))


def test_an_exchange_that_does_not_answer(doctor: Doctor, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HEADRACE_COINBASE_URL", f"http://127.0.0.1:{free_port()}")

    assert "no answer from" in doctor().only("clock", "problem")


HOLD = """
import sys, time
from headrace.leases import open_leases
open_leases(sys.argv[1]).acquire("pull:coinbase:BTC-USD:backfill", run_id="r1", ttl_s=600)
print("held", flush=True)
time.sleep(600)
"""


def test_a_lease_of_the_dead(doctor: Doctor, home: Path) -> None:
    holder = subprocess.Popen(
        [sys.executable, "-c", HOLD, str(home / "leases")], stdout=subprocess.PIPE
    )
    assert holder.stdout is not None
    assert holder.stdout.readline() == b"held\n"
    assert "is held by" in doctor().checks["leases"]["findings"][0]["what"]
    holder.send_signal(signal.SIGKILL)
    holder.wait()
    holder.stdout.close()

    said = doctor().only("leases", "warning")
    assert "pull:coinbase:BTC-USD:backfill" in said
    assert f"pid {holder.pid}" in said


def test_damaged_leases(doctor: Doctor, home: Path) -> None:
    (home / "leases").mkdir(parents=True, mode=0o700)
    (home / "leases" / "leases.sqlite").write_bytes(b"nonsense" * 64)

    assert "damaged" in doctor().only("leases", "problem")


def test_leases_in_a_bucket(
    doctor: Doctor,
    seaweed_url: str,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    for name, value in {
        "AWS_ACCESS_KEY_ID": ACCESS_KEY,
        "AWS_SECRET_ACCESS_KEY": SECRET_KEY,
        "HEADRACE_LEASES": f"s3://{BUCKET}/doctor?region=us-east-1&endpoint_url={seaweed_url}",
    }.items():
        monkeypatch.setenv(name, value)
    answers, unheld = doctor().checks["leases"]["findings"]
    assert re.search(
        r"s3://lake/doctor/_leases answers in \d+ ms; .* clock is [+-]\d s from", answers["what"]
    )
    assert "none of the 0 leases" in unheld["what"]

    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "wrong")
    assert "HEADRACE_LEASES" in doctor().only("leases", "problem")


@contextmanager
def disk(folder: Path, options: str) -> Iterator[None]:
    """A file system of its own, where the machine lets us mount one."""
    folder.mkdir(exist_ok=True)
    mount = ["mount", "-t", "tmpfs", "-o", options, "tmpfs", str(folder)]
    if os.geteuid() != 0 or subprocess.run(mount, check=False, capture_output=True).returncode:
        pytest.skip("needs the right to mount a tmpfs")
    try:
        yield
    finally:
        subprocess.run(["umount", str(folder)], check=True)


def test_a_disk_that_is_full(doctor: Doctor, lake: Path) -> None:
    with disk(lake, "size=8m"):
        (lake / "filling").write_bytes(bytes(7 * 2**20))
        said = doctor().only("disk", "problem")

    assert str(lake) in said
    assert "MiB free" in said


def test_a_disk_that_is_nearly_full(doctor: Doctor, monkeypatch: pytest.MonkeyPatch) -> None:
    whole = shutil.disk_usage("/")
    monkeypatch.setattr(shutil, "disk_usage", lambda _: whole._replace(free=500 * 2**20))

    report = doctor()
    assert report.checks["disk"]["severity"] == "warning"
    assert "500 MiB" in report.checks["disk"]["findings"][0]["what"]


def test_a_read_only_lake(doctor: Doctor, lake: Path) -> None:
    if os.geteuid() != 0:
        lake.mkdir(mode=0o500)
        said = doctor().only("lake", "problem")
    else:
        with disk(lake, "size=2g,ro"):
            said = doctor().only("lake", "problem")

    assert str(lake) in said
    assert "written" in said


def test_a_lake_that_is_a_file(doctor: Doctor, lake: Path) -> None:
    lake.write_text("not a folder")

    assert str(lake) in " ".join(finding["what"] for finding in doctor().checks["lake"]["findings"])


def test_a_damaged_grid(doctor: Doctor, lake: Path) -> None:
    open_lake(lake).raw("coinbase")
    [grid] = lake.rglob("grid-*.json")
    grid.write_text("{}")

    assert str(grid) in doctor().only("lake", "problem")


@pytest.fixture
def bucket(seaweed_url: str, monkeypatch: pytest.MonkeyPatch, doctor: Doctor) -> str:
    monkeypatch.setenv("AWS_ENDPOINT_URL_S3", seaweed_url)
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", ACCESS_KEY)
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", SECRET_KEY)
    monkeypatch.setenv("AWS_DEFAULT_REGION", "us-east-1")
    return f"s3://{BUCKET}/doctor"


def test_a_bucket_is_probed_and_left_clean(doctor: Doctor, bucket: str, seaweed_url: str) -> None:
    from tests.services_fixtures import s3_client

    report = doctor("--lake", bucket)

    assert report.code == 0
    assert "cleaned" in report.checks["lake"]["findings"][0]["what"]
    listed = s3_client(seaweed_url).list_objects_v2(Bucket=BUCKET, Prefix="doctor")
    keys = {each["Key"] for each in listed.get("Contents", [])}
    assert {key for key in keys if not key.startswith("doctor/_leases/")} == set()


REFUSED = Answer(403, "AccessDenied")


@pytest.mark.parametrize(
    ("method", "key", "permission"),
    [
        ("GET", "list-type=2", "s3:ListBucket"),
        ("PUT", "_headrace_doctor_", "s3:PutObject"),
        ("GET", "_headrace_doctor_", "s3:GetObject"),
        ("DELETE", "_headrace_doctor_", "s3:DeleteObject"),
    ],
)
def test_a_bucket_that_denies_one_right(
    doctor: Doctor,
    bucket: str,
    seaweed_url: str,
    monkeypatch: pytest.MonkeyPatch,
    method: str,
    key: str,
    permission: str,
) -> None:
    with s3_proxy(seaweed_url) as proxy:
        proxy.script(method, REFUSED, key=key, times=None)
        monkeypatch.setenv("AWS_ENDPOINT_URL_S3", proxy.url)
        said = doctor("--lake", f"{bucket}-{permission[3:]}").only("lake", "problem")

    assert permission in said
    assert SECRET_KEY not in said
    assert ("is left there" in said) == (method == "DELETE")


def test_a_bucket_that_denies_everything(
    doctor: Doctor, bucket: str, seaweed_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    with s3_proxy(seaweed_url) as proxy:
        for method in ("GET", "PUT", "HEAD", "DELETE"):
            proxy.script(method, REFUSED, times=None)
        monkeypatch.setenv("AWS_ENDPOINT_URL_S3", proxy.url)
        report = doctor("--lake", bucket)

    assert report.code == 1
    said = " ".join(str(each["remedy"]) for each in report.checks["lake"]["findings"])
    for permission in ("s3:ListBucket", "s3:PutObject", "s3:GetObject", "s3:DeleteObject"):
        assert permission in said


def test_a_bucket_that_is_not_there(doctor: Doctor, bucket: str) -> None:
    said = doctor("--lake", "s3://no-such-bucket-of-ours/x").checks["lake"]["findings"]

    assert "there is no such bucket" in said[0]["what"]


def test_a_store_that_does_not_answer_is_reported_soon(
    doctor: Doctor, bucket: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("AWS_ENDPOINT_URL_S3", f"http://127.0.0.1:{free_port()}")
    report = doctor("--lake", bucket)

    assert "does not answer" in report.only("lake", "problem")
    assert report.checks["lake"]["elapsed_s"] < 10


@pytest.mark.parametrize(("mode", "severity"), [(0o755, "warning"), (0o777, "problem")])
def test_a_state_folder_that_is_open_to_others(
    doctor: Doctor, home: Path, mode: int, severity: str
) -> None:
    (home / "leases").mkdir(parents=True)
    (home / "leases").chmod(mode)

    said = doctor().only("state", severity)
    assert f"chmod 700 {home / 'leases'}" in said


def test_a_state_folder_of_another_user(doctor: Doctor, home: Path) -> None:
    if os.geteuid() != 0:
        pytest.skip("needs the right to give a folder away")
    (home / "quota").mkdir(parents=True, mode=0o700)
    os.chown(home / "quota", 12345, 12345)

    assert "belongs to user 12345" in doctor().only("state", "problem")


def test_a_dependency_of_the_wrong_version(
    doctor: Doctor, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    planted = tmp_path / "planted" / "urllib3-1.26.18.dist-info"
    planted.mkdir(parents=True)
    (planted / "METADATA").write_text("Metadata-Version: 2.1\nName: urllib3\nVersion: 1.26.18\n")
    monkeypatch.syspath_prepend(str(planted.parent))

    said = doctor().only("versions", "problem")
    assert "urllib3 1.26.18" in said
    assert "make setup" in said


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("HEADRACE_RATE", "fast"),
        ("HEADRACE_METRICS", "statsd:x"),
        ("HEADRACE_LEASE_TTL_S", "never"),
    ],
)
def test_a_setting_that_means_nothing(
    doctor: Doctor, monkeypatch: pytest.MonkeyPatch, name: str, value: str
) -> None:
    monkeypatch.setenv(name, value)

    said = doctor().only("settings", "problem")
    assert name in said
    assert value in said


def test_a_run_with_another_rate_is_under_way(
    doctor: Doctor, home: Path, sim: SimulatedExchange
) -> None:
    config = QuotaConfig(name=f"127.0.0.1:{sim.port}", rates=parse_rates("3/s"))
    with open_gate(home / "quota", config):
        result = CliRunner().invoke(app, ["doctor", "--json"])
    report = Report(result.exit_code, json.loads(result.stdout))

    said = report.only("quota", "problem")
    assert f"process {os.getpid()}" in said
