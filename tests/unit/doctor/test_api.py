"""What doctor says of a Prefect API: it asks with the login of a run, and for a WebSocket."""

from __future__ import annotations

import http.server
import json
import threading
from collections.abc import Iterator
from importlib.metadata import version

import pytest

from headrace.doctor.checks.prefect import check_api, check_checkpoints
from headrace.doctor.runner import Api, Severity

LOGIN = {"Authorization": "Basic YWRtaW46cGFzcw=="}


class StubApi(http.server.BaseHTTPRequestHandler):
    """Wants a login for everything but its health; `upgrade` is its answer to a WebSocket."""

    upgrade: int | None = 101

    def do_GET(self) -> None:
        if self.headers.get("Upgrade"):
            if self.upgrade is not None:
                self.send_response(self.upgrade)
                self.end_headers()
            return
        open_to_all = self.path == "/api/health"
        allowed = open_to_all or self.headers.get("Authorization") == LOGIN["Authorization"]
        answers = {"/api/health": True, "/api/admin/version": version("prefect")}
        body = json.dumps(answers.get(self.path, [])).encode()
        self.send_response(200 if allowed else 401)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_: object) -> None:
        """Be quiet."""


@pytest.fixture
def stub(monkeypatch) -> Iterator[str]:
    monkeypatch.setattr(StubApi, "upgrade", 101)
    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), StubApi)
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    yield f"http://127.0.0.1:{server.server_port}/api"
    server.shutdown()
    server.server_close()


def test_with_the_login_all_is_well(target, stub) -> None:
    found = target(api=Api(stub, "the profile", LOGIN))
    assert {each.severity for each in check_api(found)} == {Severity.OK}
    assert {each.severity for each in check_checkpoints(found)} == {Severity.OK}


@pytest.mark.parametrize(
    ("headers", "words"),
    [({}, "refuses us without a login (401)"), ({"Authorization": "Basic x"}, "the login (401)")],
)
def test_a_login_that_is_missing_or_wrong_is_the_one_problem(target, stub, headers, words) -> None:
    found = target(api=Api(stub, "the profile", headers))
    [finding] = check_api(found)
    assert finding.severity is Severity.PROBLEM
    assert words in finding.what
    assert "PREFECT_API_AUTH_STRING" in finding.remedy
    assert {each.severity for each in check_checkpoints(found)} == {Severity.OK}


@pytest.mark.parametrize(("answer", "words"), [(404, "answers 404"), (None, "closed the connect")])
def test_a_server_without_events_is_a_warning(target, stub, monkeypatch, answer, words) -> None:
    monkeypatch.setattr(StubApi, "upgrade", answer)
    [_, finding] = check_api(target(api=Api(stub, "the profile", LOGIN)))
    assert finding.severity is Severity.WARNING
    assert "takes no events" in finding.what
    assert words in finding.what
    assert "Upgrade" in finding.remedy
