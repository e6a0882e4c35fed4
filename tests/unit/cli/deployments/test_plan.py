"""The list of deployments is read as Prefect reads it, and what is not known is refused."""

from __future__ import annotations

from pathlib import Path

import pytest
from prefect.cli.deploy._models import PrefectYamlModel

from headrace import __version__
from headrace.cli.deployments.plan import PlanUnusable, default_plan_path, read_plan

DEPLOYMENT = """
  - name: often
    entrypoint: flows/ingest.py:ingest
    description: What is new.
    version: "1"
    parameters: {products: [BTC-USD]}
    schedules: [{slug: often, interval: 60, timezone: UTC}]
    concurrency_limit: {limit: 1, collision_strategy: CANCEL_NEW}
"""


def plan_with(folder: Path, text: str) -> Path:
    path = folder / "prefect.yaml"
    path.write_text(text)
    return path


def test_the_project_has_a_list_and_prefect_reads_the_same_names() -> None:
    import yaml

    path = default_plan_path()
    ours = read_plan(path).deployments
    theirs = PrefectYamlModel.model_validate(yaml.safe_load(path.read_text())).deployments
    assert [(each.name, each.entrypoint) for each in ours] == [
        (each.name, each.entrypoint) for each in theirs
    ]


def test_versions_are_those_of_the_package() -> None:
    assert {each.version for each in read_plan(default_plan_path()).deployments} == {__version__}


def test_an_entrypoint_is_a_module_and_a_function(tmp_path: Path) -> None:
    plan = read_plan(plan_with(tmp_path, f"deployments:{DEPLOYMENT}"))
    [deployment] = plan.deployments
    assert (deployment.module, deployment.function) == ("flows.ingest", "ingest")


def test_steps_for_workers_are_taken_as_prefect_takes_them(tmp_path: Path) -> None:
    import yaml

    steps = "[{prefect.deployments.steps.git_clone: {repository: 'https://example.com/x.git'}}]"
    text = f"deployments:{DEPLOYMENT}    pull: {steps}\n    build: null\n    push: []\n"
    path = plan_with(tmp_path, text)
    [ours] = read_plan(path).deployments
    [theirs] = PrefectYamlModel.model_validate(yaml.safe_load(path.read_text())).deployments
    assert theirs.pull == list(ours.pull or ())


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("deployments: [", "expected"),
        ("deployments: []", "at least 1 item"),
        ("name: nothing", "deployments"),
        (f"deployments:{DEPLOYMENT}{DEPLOYMENT}", "twice"),
        (f"deployments:{DEPLOYMENT}    retries: 3\n", "retries"),
        (f"deployments:{DEPLOYMENT}".replace("UTC", "Europe/Berlin"), "timezone"),
        (f"deployments:{DEPLOYMENT}".replace("interval: 60", "active: true"), "cron or interval"),
        (f"deployments:{DEPLOYMENT}".replace("CANCEL_NEW", "WHATEVER"), "collision_strategy"),
        (f"deployments:{DEPLOYMENT}".replace("flows/ingest.py", "../x.py"), "entrypoint"),
    ],
)
def test_what_cannot_be_used_is_named(tmp_path: Path, text: str, said: str) -> None:
    path = plan_with(tmp_path, text)
    with pytest.raises(PlanUnusable, match=said) as caught:
        read_plan(path)
    assert str(path) in str(caught.value)
    assert "\n" not in str(caught.value)


def test_a_file_that_is_not_there(tmp_path: Path) -> None:
    with pytest.raises(PlanUnusable, match="No such file"):
        read_plan(tmp_path / "prefect.yaml")
