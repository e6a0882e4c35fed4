from __future__ import annotations

import json
import threading
from pathlib import Path

import pytest
from typer.testing import CliRunner

from headrace.cli import quota
from headrace.errors import ConfigurationError
from headrace.quota import BreakerConfig, Gate, QuotaConfig, QuotaUnavailable, open_gate

NAME = "127.0.0.1:8080"


@pytest.fixture
def gate(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Gate:
    monkeypatch.setenv("HEADRACE_HOME", str(tmp_path))
    config = QuotaConfig(name=NAME, rates="60/m,100/h")
    return open_gate(tmp_path / "quota", config, BreakerConfig(cooldown_s=60))


def run(app: object, *arguments: str) -> str:
    result = CliRunner().invoke(app, arguments, catch_exceptions=False)  # type: ignore[arg-type]
    assert result.exit_code == 0
    return result.stdout


def test_status_shows_what_is_used_and_by_whom(gate: Gate) -> None:
    with gate:
        for _ in range(3):
            gate.take()
        gate.status()
        (shown,) = json.loads(run(quota.app, "status", "--json"))["quotas"]
        assert NAME in run(quota.app, "status", NAME)
    assert (shown["name"], shown["health"]) == (NAME, "ok")
    assert [(one["rate"], one["used"]) for one in shown["windows"]] == [("60/m", 3), ("100/h", 3)]
    assert shown["waiting"] == {"retry": 0, "ingest": 0, "backfill": 0}
    assert len(shown["processes"]) == 1


def test_looking_takes_no_part(gate: Gate, tmp_path: Path) -> None:
    gate.take()
    gate.close()
    run(quota.app, "status")
    with open_gate(tmp_path / "quota", QuotaConfig(name=NAME, rates="15/s")) as other:
        other.take()


def test_reset_forgets_a_slow_down_and_a_pause(gate: Gate) -> None:
    with gate:
        with gate.admit() as admission:
            admission.answered(429, retry_after_s=60)
        assert json.loads(run(quota.app, "status", "--json"))["quotas"][0]["health"] == "blocked"
        assert "slow-down and pause reset" in run(quota.app, "reset", NAME)
        gate.take(timeout_s=5)
        assert gate.status().book.slowdown == 1


def test_a_breaker_is_shown_and_closed_by_hand(gate: Gate) -> None:
    with gate:
        for _ in range(5):
            with gate.admit() as admission:
                admission.answered(500)
        (shown,) = json.loads(run(quota.breaker_app, "status", "--json"))["breakers"]
        assert shown["phase"] == "open"
        assert 50 < shown["reopens_in_s"] <= 60
        assert "open, 5 failures" in run(quota.breaker_app, "status")
        assert json.loads(run(quota.breaker_app, "reset", NAME, "--json"))["before"] == "open"
        with gate.admit(timeout_s=5) as admission:
            admission.answered(200)


@pytest.mark.parametrize(
    "command", [(quota.app, "status"), (quota.app, "reset"), (quota.breaker_app, "reset")]
)
def test_an_unknown_name_is_refused_and_the_known_ones_named(
    gate: Gate, tmp_path: Path, command: tuple[object, str]
) -> None:
    app, verb = command
    with gate, pytest.raises(ConfigurationError, match=NAME):
        run(app, verb, "absent")
    assert not list((tmp_path / "quota").glob("*absent*"))


def test_bench_measures_where_the_state_lives(gate: Gate, tmp_path: Path) -> None:
    gate.close()
    shown = json.loads(
        run(quota.app, "bench", "--rate", "20/s", "--processes", "2", "--seconds", "1", "--json")
    )
    assert shown["permits"] >= 10
    assert shown["over_limit"] <= 1
    assert not list((tmp_path / "quota").glob("selftest-*"))


@pytest.mark.parametrize("content", [b"", b"no database at all" * 600])
@pytest.mark.parametrize("command", [("status",), ("status", NAME, "--json"), ("reset", NAME)])
def test_a_file_that_does_not_read_is_named(
    gate: Gate, tmp_path: Path, content: bytes, command: tuple[str, ...]
) -> None:
    gate.take()
    gate.close()
    (tmp_path / "quota" / "quota-127.0.0.1%3A8080.sqlite").write_bytes(content)
    with pytest.raises(QuotaUnavailable, match="quota-127"):
        run(quota.app, *command)
    # The breaker is another file, and says what it knows.
    assert "closed" in run(quota.breaker_app, "status")


def test_a_reset_waits_for_its_turn_among_busy_threads(gate: Gate, tmp_path: Path) -> None:
    gate.close()
    config = QuotaConfig(name=NAME, rates="2000/s")
    over = threading.Event()
    with open_gate(tmp_path / "quota", config) as busy:

        def take() -> None:
            while not over.is_set():
                busy.take()

        threads = [threading.Thread(target=take) for _ in range(4)]
        for thread in threads:
            thread.start()
        try:
            for _ in range(30):
                run(quota.app, "reset", NAME, "--bookings")
        finally:
            over.set()
            for thread in threads:
                thread.join()


def test_bench_with_keys_counts_what_the_server_refused(gate: Gate) -> None:
    found = json.loads(
        run(
            quota.app,
            *("bench", "--keyed", "--rate", "50/s", "--keys", "2", "--processes", "2"),
            *("--seconds", "3", "--delay", "uniform:low=0,high=0.005", "--json"),
        )
    )
    assert len(found["by_second"]) == 3
    assert 0 < found["used_share"] <= 1.2
    assert (found["blocked"], found["per_s"] > 0, found["fairness"] > 0) == (0, True, True)
