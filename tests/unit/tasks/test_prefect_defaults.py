"""What a run does is said by the project; no Prefect profile changes it."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from prefect import Flow
from prefect.settings import Settings
from prefect.settings.base import PrefectBaseSettings
from pydantic import SecretStr
from support.profiles import OTHER_SETTINGS

from tasks.prefect_defaults import flow

ROOT = Path(__file__).parents[3]
DECISIONS = ROOT / "docs" / "adr" / "0011-prefect-settings.md"

LOOK = """
import importlib, json, pkgutil, sys
import flows, tasks
from prefect import Flow, Task

found = {}
for package in (flows, tasks):
    for module in pkgutil.iter_modules(package.__path__, package.__name__ + "."):
        for name, value in vars(importlib.import_module(module.name)).items():
            if isinstance(value, Flow | Task) and value.fn.__module__ == module.name:
                kept = {
                    field: getattr(value, field)
                    for field in (
                        "retries", "retry_delay_seconds", "timeout_seconds", "persist_result",
                        "result_storage", "result_serializer", "log_prints",
                    )
                }
                if isinstance(value, Task):
                    kept |= {"cache": value.cache_policy, "refresh": value.refresh_cache}
                else:
                    kept["pool"] = value.task_runner._max_workers
                found[f"{module.name}.{name}"] = kept
json.dump(found, sys.stdout, default=repr)
"""


def defined(**settings: str) -> dict[str, dict[str, object]]:
    """Every flow and task of the project, as a process with these settings has them."""
    own = {name: text for name, text in os.environ.items() if not name.startswith("PREFECT_")}
    done = subprocess.run(
        [sys.executable, "-c", LOOK],
        env={**own, **settings},
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=True,
    )
    return dict(json.loads(done.stdout))


def test_no_setting_changes_a_flow_or_a_task() -> None:
    found = defined(**OTHER_SETTINGS)
    assert {"flows.backfill.backfill", "tasks.pull.fetch_chunk"} <= found.keys()
    assert found == defined()
    for name, kept in found.items():
        explicit = (kept["retries"], kept["persist_result"], kept["timeout_seconds"])
        assert explicit == (0, False, None), name
        assert kept.get("refresh", False) is False, name


def client_settings(model: type[PrefectBaseSettings], before: str = "") -> Iterator[str]:
    for name, field in model.model_fields.items():
        kind = field.annotation
        if isinstance(kind, type) and issubclass(kind, PrefectBaseSettings):
            yield from client_settings(kind, f"{before}{name}.")
        else:
            yield f"{before}{name}"


def test_every_client_setting_of_prefect_is_decided() -> None:
    cells = [line.split("|")[1] for line in DECISIONS.read_text().splitlines() if "|" in line]
    decided = [name for cell in cells for name in re.findall(r"`([\w.]+)`", cell)]
    of_clients = {name for name in client_settings(Settings) if not name.startswith("server.")}
    assert sorted(decided) == sorted(of_clients)


@pytest.mark.parametrize("word", ["flow", "task"])
def test_the_linter_refuses_the_bare_decorator(word: str) -> None:
    ruff = Path(sys.executable).with_name("ruff")
    done = subprocess.run(
        [ruff, "check", "--select", "TID251", "--stdin-filename", "tasks/other.py", "-"],
        input=f"from prefect import {word}\n",
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
    )
    assert (done.returncode, f"tasks.prefect_defaults.{word}" in done.stdout) == (1, True)


@flow(name="any")
def any_flow(**parameters: object) -> None:
    pass


@pytest.mark.parametrize(
    "value",
    [
        None, True, 5, 1800.0, "BTC-USD", ["BTC-USD", "ETH-USD"], [], [[1, "a"], [None]],
        ("a", "b"), {"a": 1}, datetime(2026, 3, 1, tzinfo=UTC), timedelta(hours=1), SecretStr("k"),
        [Path("lake")], object(),
    ],
)  # fmt: skip
def test_parameters_are_sent_as_prefect_sends_them(value: object) -> None:
    parameters = {"one": 1, "value": value}
    sent = any_flow.serialize_parameters(parameters)
    assert sent == Flow.serialize_parameters(any_flow, parameters)
    assert type(sent["value"]) is type(Flow.serialize_parameters(any_flow, parameters)["value"])


def test_plain_parameters_need_no_fastapi() -> None:
    code = """
import sys
from flows.ingest import ingest
sent = ingest.serialize_parameters({"products": ["BTC-USD"], "workers": 5, "lake": "data"})
assert sent == {"products": ["BTC-USD"], "workers": 5, "lake": "data"}
sys.exit("fastapi" in sys.modules)
"""
    assert subprocess.run([sys.executable, "-c", code], cwd=ROOT).returncode == 0
