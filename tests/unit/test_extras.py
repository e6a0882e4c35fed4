"""Without the clients of the extras everything else works, and what needs one names it."""

from __future__ import annotations

import os
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest
from lake_samples import FETCHED_AT, SOURCE, trades

from headrace import extras
from headrace.cli.deployments.plan import default_plan_path, read_plan
from headrace.cli.deployments.registering import without_missing_extras
from headrace.extras import ExtraMissing, import_with
from headrace.lake import open_lake

ROOT = Path(__file__).parents[2]
WITHOUT = """
import sys
GONE = ("looker_sdk", "cassandra", "deltalake", "prefect_dask", "psycopg")
class Absent:
    def find_spec(self, name, path=None, target=None):
        if name.partition(".")[0] in GONE:
            raise ModuleNotFoundError(f"No module named {name!r}", name=name)
sys.meta_path.insert(0, Absent())
import importlib.util
found = importlib.util.find_spec
importlib.util.find_spec = lambda name: None if name in GONE else found(name)
"""


def python(program: str, *arguments: str, **environment: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-c", WITHOUT + program, *arguments],
        cwd=ROOT,
        env={**os.environ, **environment},
        capture_output=True,
        text=True,
    )


@pytest.mark.parametrize(
    ("extra", "arguments"),
    [
        ("cql", ["sot", "head", "--store", "cql://127.0.0.1/log"]),
        ("cql", ["sot", "verify", "--store", "cql://127.0.0.1/log"]),
        ("looker", ["looker", "extract", "--base-url", "http://127.0.0.1:9"]),
        ("postgres", ["quota", "status"]),
    ],
)
def test_the_error_names_the_extra(tmp_path: Path, extra: str, arguments: list[str]) -> None:
    done = python(
        "from headrace.cli.entry import main; main()",
        *arguments,
        HEADRACE_HOME=str(tmp_path),
        HEADRACE_QUOTA="postgres://127.0.0.1:9/quotas",
        LOOKERSDK_CLIENT_ID="simulated",
        LOOKERSDK_CLIENT_SECRET="simulated",
    )
    assert done.returncode == 2, done.stderr
    assert f"pip install 'headrace[{extra}]'" in done.stderr
    assert "Traceback" not in done.stderr
    assert not (tmp_path / "prefect").exists(), "a server was started for it"


def test_a_client_of_looker_cannot_be_had_without_the_sdk() -> None:
    done = python(
        "from headrace.errors import ConfigurationError\n"
        "from headrace.looker.client import LookerConnection\n"
        "try: from headrace.looker.client import open_client\n"
        "except ConfigurationError as error: print(error)"
    )
    assert "headrace[looker]" in done.stdout, done.stderr


def test_pulls_blocks_and_the_log_in_a_folder_do_without(tmp_path: Path) -> None:
    done = python(
        "import blocks.registering, flows.backfill, flows.ingest, flows.audit, flows.sot_write\n"
        "from blocks.registering import *\n"
        "from headrace.sot.opening import open_store\n"
        "open_store(sys.argv[1]).close()\n"
        "print('fine')",
        str(tmp_path / "log"),
    )
    assert done.stdout == "fine\n", done.stderr


def test_deployments_whose_client_is_missing_are_left_out_with_a_line(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    plan = read_plan(default_plan_path())
    assert without_missing_extras(plan) == (plan, [])

    def flow_of(planned: object) -> None:
        if "looker" in planned.entrypoint:
            raise ExtraMissing("looker")

    monkeypatch.setattr("headrace.cli.deployments.registering.flow_of", flow_of)
    kept, lines = without_missing_extras(plan)
    assert len(lines) == len(plan.deployments) - len(kept.deployments) > 0
    assert all("headrace[looker]" in line for line in lines)


def test_another_missing_module_is_not_taken_for_an_extra() -> None:
    with pytest.raises(ModuleNotFoundError, match="no_such_module"):
        import_with("cql", "headrace.no_such_module")


def test_each_extra_is_declared() -> None:
    declared = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    assert declared["optional-dependencies"].keys() == extras._PACKAGES.keys()


def test_a_transform_names_the_extra_before_it_starts_anything(tmp_path: Path) -> None:
    raw = open_lake(tmp_path / "lake").raw("coinbase")
    raw.write("BTC-USD", 1, 9, trades(range(1, 10)), source=SOURCE, fetched_at=FETCHED_AT)
    program = (
        "import sys\n"
        "from headrace.errors import ConfigurationError\n"
        "from headrace.lake import open_lake\n"
        "from headrace.unified.request import TransformRequest\n"
        "from headrace.stopping import STOP\n"
        "from tasks.transform_run import made_transform\n"
        "asked = TransformRequest(lake=sys.argv[1], runner='threads')\n"
        "try:\n"
        "    with made_transform('run', asked, ('BTC-USD',), STOP): pass\n"
        "except ConfigurationError as error: print(error)"
    )
    done = python(program, str(tmp_path / "lake"), HEADRACE_HOME=str(tmp_path / "home"))
    assert "headrace[unified]" in done.stdout, done.stderr
    assert not (tmp_path / "lake" / "unified").exists()
