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
from dataclasses import replace
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path

import pytest
from rich.console import Console
from rich.screen import Screen

from headrace.cli.top import View, look
from headrace.leases import hold, open_leases
from headrace.quota import BreakerConfig, QuotaConfig, open_gate, parse_rates
from headrace.quota.status import (
    BookStatus,
    BreakerStatus,
    ProcessStatus,
    QuotaStatus,
    quota_path,
)
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


def seen(*, runs: int = 0, leases: int = 0, quotas: int = 0, parts: int = 1) -> View:
    """So many of each; of the quotas every second one is in use."""
    view = View()
    view.places |= {"quotas": "/home/somewhere/quota", "leases": "/home/somewhere/leases"}
    now = view.at.isoformat()
    progress = "; ".join(f"P{n}-USD: 12,000/120,000 pages, 15.0/s, fetching" for n in range(parts))
    for n in range(runs):
        run = {"id": f"{n}", "flow": "backfill", "name": f"quick-heron-{n}", "state": "Running"}
        more = {"since": now, "percent": 41.5, "progress": progress, "process": None}
        view.runs.append({**run, **more})
    for n in range(leases):
        holder = {"host": "a-host", "pid": 1234567, "since": now, "expires": now, "run_id": "0"}
        lease = {"name": f"coinbase/P{n}-USD", "standing": "held", "process": "alive"}
        view.leases.append({**lease, "holder": holder})
    rates = parse_rates("5/s,100/m")
    for n in range(quotas):
        book = replace(
            BookStatus.idle(QuotaConfig(name="x", rates=rates)),
            processes=(ProcessStatus(7, 0, {}),) if n % 2 else (),
        )
        name = f"q{n}.exchange.example.com"
        view.quotas.append(QuotaStatus(name, book, BreakerStatus.of_nothing()))
    return view


def on_a_terminal(view: View, height: int, width: int) -> list[str]:
    """As `top` draws it: on a screen of its own."""
    console = Console(width=width, height=height, file=io.StringIO())
    console.print(Screen(view.drawn(limited=True)), end="")
    text: str = console.file.getvalue()  # type: ignore[attr-defined]
    return [line.rstrip() for line in text.splitlines()]


def test_a_small_terminal_has_a_line_for_each_run_and_each_quota() -> None:
    lines = on_a_terminal(seen(runs=2, leases=2, quotas=2), 24, 80)

    titles = [line.split()[0] for line in lines if line.startswith(("runs", "quotas", "leases"))]
    assert titles == ["runs", "quotas", "leases"]
    for words in ("quick-heron-0", "quick-heron-1", "coinbase/P0-USD", "coinbase/P1-USD"):
        assert any(words in line for line in lines), lines
    # What is in use comes first; a breaker without failures is not worth a word.
    [first, second] = [line for line in lines if "exchange.example.com" in line]
    assert first.startswith("q1.")
    assert second.startswith("q0.")
    assert first.endswith("ok")
    assert "more" not in "".join(lines)


def test_where_rows_have_no_room_they_take_fewer_words() -> None:
    view = seen(runs=5, leases=2, quotas=2, parts=50)
    wide, small = (on_a_terminal(view, height, 80) for height in (60, 24))

    assert "and 49 more" in " ".join("".join(wide).split())
    assert (
        sum("quick-heron" in line and "P0-USD: 12,000/120,000 pages" in line for line in small) == 5
    )


@pytest.mark.parametrize("height", [10, 16, 24, 40])
@pytest.mark.parametrize("width", [40, 80, 200])
def test_each_section_says_how_much_it_leaves_out(height: int, width: int) -> None:
    view = seen(runs=20, leases=30, quotas=10, parts=50)
    lines = on_a_terminal(view, height, width)

    assert len(lines) == height
    assert all(len(line) <= width for line in lines)
    text = "\n".join(lines)
    at = [text.index(f"\n{title}") for title in ("runs", "quotas", "leases")]
    assert at == sorted(at)
    ends = [*at[1:], len(text)]
    for begins, end, name, count in zip(
        at, ends, ("quick-heron-", ".exchange", "coinbase/P"), (20, 10, 30), strict=True
    ):
        section = text[begins:end]
        shown = section.count(name)
        left = f"and {count - shown} more" if shown else f": {count}, for which"
        assert left in " ".join(section.split()), section
    assert text.count("quick-heron-") >= (1 if width > 40 else 0)


def test_what_cannot_be_read_is_said_whole_where_there_is_room() -> None:
    view = View()
    view.problems += [
        "quotas: " + "nothing listens " * 25 + "there",
        "leases: " + "gone " * 80 + "end",
    ]
    drawn = on_a_terminal(view, 24, 80)
    assert list(filter(None, drawn))[-1].endswith("end")
    crowded = seen(runs=40, leases=40, quotas=40)
    crowded.problems += view.problems
    assert len(on_a_terminal(crowded, 24, 80)) <= 24


def test_a_pipe_has_all_of_it() -> None:
    console = Console(width=400, file=io.StringIO())
    console.print(seen(runs=20, leases=30, quotas=10, parts=50).drawn())
    text = console.file.getvalue()  # type: ignore[attr-defined]

    assert (text.count("quick-heron"), text.count("coinbase/P"), text.count(".com")) == (20, 30, 10)
    assert "P0-USD: 12,000/120,000 pages, 15.0/s, fetching; and 49 more" in text


def test_a_run_whose_process_is_gone_is_not_called_running(
    settings: Settings, monkeypatch: pytest.MonkeyPatch
) -> None:
    held = (
        "import sys, time; from headrace.leases import hold, open_leases;"
        "lease = hold(open_leases(sys.argv[1]), 'coinbase/BTC-USD', run_id='1');"
        "lease.__enter__(); print('held', flush=True); time.sleep(600)"
    )
    command = [sys.executable, "-c", held, str(settings.lease_location)]
    with HTTPServer(("127.0.0.1", 0), _Api) as api:
        threading.Thread(target=api.serve_forever, daemon=True).start()
        monkeypatch.setenv("PREFECT_API_URL", f"http://127.0.0.1:{api.server_port}/api")
        assert [run["process"] for run in look(settings).runs] == [None]
        with subprocess.Popen(command, stdout=subprocess.PIPE) as holder:
            assert holder.stdout is not None
            holder.stdout.readline()
            alive = look(settings)
            holder.kill()
        gone = look(settings)
        with hold(open_leases(settings.lease_location), "coinbase/ETH-USD", run_id="1"):
            retried = look(settings)
        api.shutdown()
    assert [run["process"] for run in alive.runs] == ["alive"]
    assert [run["process"] for run in gone.runs] == ["gone"]
    assert [run["process"] for run in retried.runs] == ["alive"]
    for view, state in ((alive, "Running"), (gone, "process gone"), (retried, "Running")):
        lines = on_a_terminal(view, 24, 120)
        [line] = [line for line in lines if "quick-heron" in line]
        assert state in line
        assert ("Running" in line) is (state == "Running")


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
