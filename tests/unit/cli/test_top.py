"""`headrace top`: what it sees, once and again and again."""

from __future__ import annotations

import fcntl
import io
import json
import os
import pty
import signal
import struct
import subprocess
import sys
import termios
import threading
from contextlib import suppress
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path

import pytest
from rich.console import Console

from headrace.cli.top import look
from headrace.leases import hold, open_leases
from headrace.quota import BreakerConfig, QuotaConfig, open_gate, parse_rates
from headrace.quota.status import quota_path
from headrace.settings import Settings, load_settings

RUN = {
    "id": "1", "flow_id": "2", "name": "quick-heron", "state_name": "Running",
    "start_time": "2026-01-01T00:00:00+00:00",
}  # fmt: skip
ANSWERS = {
    "flow_runs": [RUN],
    "flows": [{"id": "2", "name": "backfill"}],
    "artifacts": [{"flow_run_id": "1", "data": 41.5, "description": "5 of 12 pages"}],
}


class _Api(BaseHTTPRequestHandler):
    def do_POST(self) -> None:
        self.rfile.read(int(self.headers["Content-Length"]))
        body = json.dumps(ANSWERS[self.path.split("/")[-2]]).encode()
        self.send_response(200)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_: object) -> None:
        """Nothing on stderr."""


@pytest.fixture
def settings(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Settings:
    monkeypatch.setenv("HEADRACE_HOME", str(tmp_path / "home"))
    monkeypatch.setenv("PREFECT_HOME", str(tmp_path / "prefect"))
    monkeypatch.delenv("PREFECT_API_URL", raising=False)
    monkeypatch.chdir(tmp_path)
    return load_settings()


def used_quota(settings: Settings, name: str) -> None:
    config = QuotaConfig(name=name, rates=parse_rates("5/s,100/m"))
    with open_gate(settings.quota_folder, config, BreakerConfig()) as gate:
        for _ in range(5):
            with gate.admit() as admission:
                admission.answered(500)


def test_everything_at_once(settings: Settings, monkeypatch: pytest.MonkeyPatch) -> None:
    used_quota(settings, "exchange.test")
    used_quota(settings, "broken.test")
    quota_path(settings.quota_folder, "broken.test").write_bytes(b"no database" * 100)
    with HTTPServer(("127.0.0.1", 0), _Api) as api:
        threading.Thread(target=api.serve_forever, daemon=True).start()
        monkeypatch.setenv("PREFECT_API_URL", f"http://127.0.0.1:{api.server_port}/api")
        with hold(open_leases(settings.lease_location), "coinbase/BTC-USD", run_id="run-7"):
            view = look(settings)
        api.shutdown()
    [quota] = view.as_json()["quotas"]
    assert (quota["name"], quota["breaker"]["phase"]) == ("exchange.test", "open")
    [lease] = view.as_json()["leases"]
    assert lease["holder"]["run_id"] == "run-7"
    [run] = view.as_json()["runs"]
    assert (run["flow"], run["percent"], run["progress"]) == ("backfill", 41.5, "5 of 12 pages")
    [problem] = view.problems
    assert "broken.test" in problem
    for width in (20, 200):
        console = Console(width=width, record=True, file=io.StringIO())
        console.print(view.drawn())
        text = console.export_text()
    assert all(word in text for word in ("quick-heron", "42 %", "coinbase/BTC-USD", "open, 5"))


def test_nothing_there_and_an_api_that_does_not_answer(
    settings: Settings, monkeypatch: pytest.MonkeyPatch
) -> None:
    view = look(settings)
    assert view.problems == []
    assert view.places["quotas"] == str(settings.quota_folder)
    assert not settings.quota_folder.exists()
    monkeypatch.setenv("PREFECT_API_URL", "http://127.0.0.1:9/api")
    [problem] = look(settings).problems
    assert problem.startswith("runs: ")


@pytest.mark.parametrize("quota", ["block:shared", "redis://:hush@127.0.0.1:9/0", "ftp://a"])
def test_quotas_that_cannot_be_seen(
    quota: str, settings: Settings, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HEADRACE_QUOTA", quota)
    used_quota(settings, "of-this-machine.test")
    view = look(load_settings())
    assert view.quotas == []
    [problem] = view.problems
    assert problem.startswith("quotas: ")
    assert "HEADRACE_QUOTA" in problem
    assert "hush" not in problem
    assert not (settings.home / "prefect").exists(), "a server was started"


def test_a_terminal_that_is_resized_until_ctrl_c(settings: Settings) -> None:
    ours, theirs = pty.openpty()
    script = Path(sys.executable).with_name("headrace")
    command = [str(script), "top", "--interval-s", "0.5"]
    process = subprocess.Popen(
        command, stdin=theirs, stdout=theirs, stderr=subprocess.PIPE, start_new_session=True,
        env={**os.environ, "TERM": "xterm"},
    )  # fmt: skip
    os.close(theirs)
    seen = b""
    for columns in (100, 30):
        fcntl.ioctl(ours, termios.TIOCSWINSZ, struct.pack("HHHH", 10, columns, 0, 0))
        process.send_signal(signal.SIGWINCH)
        before = seen.count(b"headrace top")
        while seen.count(b"headrace top") < before + 2:
            seen += os.read(ours, 65_536)
    process.send_signal(signal.SIGINT)
    with suppress(OSError):  # what is drawn is read until the process has closed its terminal
        while os.read(ours, 65_536):
            pass
    assert process.wait(30) == 0
    assert process.stderr is not None
    assert process.stderr.read() == b""
    os.close(ours)


def test_no_terminal(settings: Settings) -> None:
    script = Path(sys.executable).with_name("headrace")
    for words in ([], ["--json"]):
        done = subprocess.run([str(script), "top", *words], capture_output=True, text=True)
        assert (done.returncode, done.stderr) == (0, ""), words
    assert json.loads(done.stdout).keys() == {
        "at",
        "places",
        "quotas",
        "leases",
        "runs",
        "problems",
    }
