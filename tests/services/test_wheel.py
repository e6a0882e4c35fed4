"""The wheel, installed outside of a checkout, beside packages of a user's that have our names."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import sysconfig
import venv
import zipfile
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from headrace import __version__
from headrace.project import PACKAGES
from headrace.sim import SimulatedExchange
from tests.support.served import Server, clean_environment, served

pytestmark = [pytest.mark.services, pytest.mark.long, pytest.mark.timeout(300)]

ROOT = Path(__file__).parents[2]
PRODUCT = "BTC-USD"

#: What a user's own list may serve: flows without `__init__.py`, tasks with one.
THEIR_LIST = """
deployments:
  - name: mine
    entrypoint: flows/mine.py:count
    description: Counts.
    concurrency_limit: {limit: 1, collision_strategy: CANCEL_NEW}
"""
THEIR_FLOW = """
from prefect import flow

from tasks import answer


@flow
def count() -> str:
    return answer()
"""
THEIR_TASKS = """
from pathlib import Path


def answer():
    Path("counted").write_text("42")
    return "42"
"""


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The wheel of this checkout."""
    folder = tmp_path_factory.mktemp("dist")
    hatchling = Path(sys.executable).with_name("hatchling")
    subprocess.run(
        [hatchling, "build", "-t", "wheel", "-d", folder], cwd=ROOT, check=True, capture_output=True
    )
    [built] = folder.glob("*.whl")
    return built


@pytest.fixture(scope="module")
def scripts(wheel: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of commands of a Python that has the wheel, and what it needs from this one."""
    folder = tmp_path_factory.mktemp("installed")
    venv.create(folder, with_pip=False, symlinks=True)
    python = folder / "bin/python"
    install = (
        ["uv", "pip", "install", "--offline", "--python", str(python)]
        if shutil.which("uv")
        else [sys.executable, "-m", "pip", "--python", str(python), "install", "--no-index"]
    )
    subprocess.run([*install, "--no-deps", str(wheel)], check=True, capture_output=True)
    [site_packages] = folder.glob("lib/python*/site-packages")
    # A plain line: the .pth files of that folder, ours of the checkout among them, do not count.
    (site_packages / "needed.pth").write_text(f"{sysconfig.get_path('purelib')}\n")
    return folder / "bin"


@pytest.fixture(scope="module")
def server(scripts: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    """Commands in an empty folder; on the user's path, packages of theirs that may not be run."""
    others = tmp_path_factory.mktemp("others")
    for name in PACKAGES:
        (others / name).mkdir()
        (others / name / "__init__.py").write_text("raise ImportError('a package of the user')")
    folder = tmp_path_factory.mktemp("empty")
    with (
        SimulatedExchange(f"{PRODUCT}:2500", seed=4) as sim,
        served(folder, sim, programs=scripts, PYTHONPATH=str(others)) as started,
    ):
        (folder / "headrace.toml").write_text('lake = "of-the-file"\n')
        yield started


def test_the_top_of_site_packages_gets_nothing_but_headrace(wheel: Path) -> None:
    tops = {name.partition("/")[0] for name in zipfile.ZipFile(wheel).namelist()}
    assert tops == {"headrace", f"headrace-{__version__}.dist-info"}


def test_a_backfill_and_a_deployment(server: Server) -> None:
    done = server.command("backfill", PRODUCT, "--last", "1h", "--json", "--lake", "first")
    assert json.loads(done.stdout)["status"] == "done"
    assert len(server.up()["deployments"]) >= 10
    run = server.ended(server.start("backfill/on-demand", products=[PRODUCT]))
    assert run["state_type"] == "COMPLETED", run["state"]
    assert list(server.folder.glob("of-the-file/raw/trades/**/*.parquet"))
    assert server.command("--version").stdout == f"headrace {__version__}\n"


def test_a_list_of_the_users_own_with_packages_of_our_names(server: Server, tmp_path: Path) -> None:
    (tmp_path / "prefect.yaml").write_text(THEIR_LIST)
    for name in ("flows", "tasks"):
        (tmp_path / name).mkdir()
    (tmp_path / "flows/mine.py").write_text(THEIR_FLOW)
    (tmp_path / "tasks/__init__.py").write_text(THEIR_TASKS)
    server.command("down")
    own = {name: text for name, text in server.environment.items() if name != "PYTHONPATH"}
    alone = replace(server, environment=own)
    assert alone.up("--deployments", str(tmp_path / "prefect.yaml"))["deployments"] == [
        "count/mine"
    ]
    run = alone.ended(alone.start("count/mine"))
    assert run["state_type"] == "COMPLETED", run["state"]
    assert (server.folder / "counted").read_text() == "42"


def test_the_users_own_packages_are_what_their_python_imports(
    scripts: Path, tmp_path: Path
) -> None:
    """Also without `__init__.py`: any package of that name on the path would be found first."""
    (tmp_path / "tasks").mkdir()
    (tmp_path / "tasks/mine.py").touch()
    program = "import tasks.mine, headrace.quota; print(tasks.__path__[0])"
    done = subprocess.run(
        [scripts / "python", "-c", program],
        cwd=tmp_path,
        env={**os.environ, "PYTHONPATH": str(tmp_path)},
        capture_output=True,
        text=True,
        check=True,
    )
    assert done.stdout.strip() == str(tmp_path / "tasks")


@pytest.mark.parametrize("tool", ["uv tool", "pipx"])
def test_a_tool_of_the_ecosystem_installs_it(tool: str, wheel: Path, tmp_path: Path) -> None:
    """With what `make setup-dev` has put into the cache of uv, which is also what pipx uses."""
    if not shutil.which("uv"):
        pytest.skip("there is no uv, from whose cache packages are installed")
    environment = clean_environment(
        PATH=f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}",
        UV_OFFLINE="1",
        UV_CONSTRAINT=str(ROOT / "requirements/run.txt"),
        UV_TOOL_DIR=str(tmp_path / "tools"),
        UV_TOOL_BIN_DIR=str(tmp_path / "bin"),
        PIPX_HOME=str(tmp_path / "tools"),
        PIPX_BIN_DIR=str(tmp_path / "bin"),
        PIPX_MAN_DIR=str(tmp_path / "man"),
        PIPX_DEFAULT_BACKEND="uv",
        PIPX_DEFAULT_PYTHON=sys.executable,
        HEADRACE_HOME=str(tmp_path / "home"),
    )
    done = subprocess.run(
        [*tool.split(), "install", str(wheel)],
        cwd=tmp_path,
        env=environment,
        capture_output=True,
        text=True,
    )
    if "network was disabled" in done.stderr:
        pytest.skip("the cache of uv lacks a package: make setup-dev with uv")
    assert done.returncode == 0, done.stderr
    assert [each.name for each in (tmp_path / "bin").iterdir()] == ["headrace"]
    for words, said in (
        (["--version"], f"headrace {__version__}"),
        (["config", "show"], "coinbase_url"),
    ):
        answer = subprocess.run(
            [tmp_path / "bin/headrace", *words],
            cwd=tmp_path,
            env=environment,
            capture_output=True,
            text=True,
            check=True,
        )
        assert said in answer.stdout


def test_the_folder_for_the_path_of_workers(scripts: Path) -> None:
    done = subprocess.run(
        [scripts / "python", "-m", "headrace.project"], capture_output=True, text=True, check=True
    )
    assert {each.name for each in Path(done.stdout.strip()).iterdir()} >= {
        *PACKAGES,
        "prefect.yaml",
    }
