"""The list of deployments is read as Prefect reads it, and what is not known is refused."""

from __future__ import annotations

import re
from pathlib import Path
from uuid import uuid4

import pytest
from prefect.cli.deploy._models import PrefectYamlModel
from prefect.client.schemas.schedules import IntervalSchedule, RRuleSchedule

from headrace import __version__
from headrace.cli.deployments.plan import PlanUnusable, default_plan_path, read_plan
from headrace.cli.deployments.registering import times_of
from headrace.cli.deployments.triggers import automations_of
from headrace.errors import ConfigurationError

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


def test_a_flow_is_shown_by_the_name_that_prefect_gives_it() -> None:
    from flows.sot_verify import sot_verify

    [planned] = [
        each for each in read_plan(default_plan_path()).deployments if each.function == "sot_verify"
    ]
    assert planned.shown_flow == sot_verify.name


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


CLONE = "prefect.deployments.steps.git_clone: {repository: 'https://example.com/x.git'}"


def test_steps_for_workers_are_taken_as_prefect_takes_them_and_named_as_ignored(
    tmp_path: Path,
) -> None:
    """On one deployment, on the whole file, as a list and as a single step."""
    import yaml

    text = (
        f"pull: {{{CLONE}}}\ndeployments:{DEPLOYMENT}"
        f"    pull: [{{{CLONE}}}]\n    build: null\n    push: []\n"
        "    work_pool: {name: k8s, job_variables: {env: {A: b}}}\n    flow_name: another\n"
    )
    path = plan_with(tmp_path, text)
    plan = read_plan(path)
    [ours] = plan.deployments
    theirs = PrefectYamlModel.model_validate(yaml.safe_load(path.read_text()))
    assert (theirs.pull, theirs.deployments[0].pull) == (list(plan.pull), list(ours.pull))
    assert [line.partition(": ")[0] for line in plan.ignored] == [
        "pull (all, ingest/often)",
        "flow_name (ingest/often)",
        "work_pool.job_variables (ingest/often)",
    ]


def test_the_projects_own_list_has_nothing_that_served_runs_ignore() -> None:
    assert read_plan(default_plan_path()).ignored == []


def test_what_prefect_lets_one_leave_out_may_be_left_out(tmp_path: Path) -> None:
    text = "deployments: [{name: x, entrypoint: 'f.py:f', tags: a, schedule: {cron: 0 9 * * 1-5}}]"
    [plain] = read_plan(plan_with(tmp_path, text)).deployments
    assert (plain.description, plain.tags, plain.concurrency_limit) == ("", ("a",), None)
    [schedule] = plain.schedules
    assert (schedule.timezone, schedule.key) == ("UTC", "0-9-x-x-1-5")


def test_times_are_kept_in_the_zone_and_kind_of_the_file(tmp_path: Path) -> None:
    schedules = (
        "[{slug: a, interval: PT1H, anchor_date: '2026-01-01T00:20:00Z'},"
        " {slug: b, rrule: 'FREQ=WEEKLY;BYDAY=MO', timezone: America/New_York,"
        " parameters: {last: 7d}}]"
    )
    text = f"deployments:{DEPLOYMENT}".replace(
        "[{slug: often, interval: 60, timezone: UTC}]", schedules
    )
    [deployment] = read_plan(plan_with(tmp_path, text)).deployments
    hourly, weekly = map(times_of, deployment.schedules)
    assert isinstance(hourly, IntervalSchedule)
    assert (hourly.interval.total_seconds(), hourly.anchor_date.minute) == (3600, 20)
    assert isinstance(weekly, RRuleSchedule)
    assert weekly.timezone == "America/New_York"


def test_a_cron_that_prefect_cannot_read_is_named(tmp_path: Path) -> None:
    text = f"deployments:{DEPLOYMENT}".replace("interval: 60", "cron: 61 * * * *")
    [deployment] = read_plan(plan_with(tmp_path, text)).deployments
    with pytest.raises(ConfigurationError, match=r"schedule often .*61"):
        times_of(deployment.schedules[0])


def test_a_trigger_is_an_automation_that_is_off_until_it_is_switched_on(tmp_path: Path) -> None:
    trigger = "[{expect: [headrace.product.up-to-date], parameters: {products: [BTC-USD]}}]"
    text = f"deployments:{DEPLOYMENT}    triggers: {trigger}\n    concurrency_limit: 2\n"
    text = text.replace("    concurrency_limit: {limit: 1, collision_strategy: CANCEL_NEW}\n", "")
    [deployment] = read_plan(plan_with(tmp_path, text)).deployments
    assert deployment.concurrency_limit is not None
    assert deployment.concurrency_limit.limit == 2
    [automation] = automations_of(deployment, uuid4())
    assert (automation.name, automation.enabled) == ("often__automation_1", False)
    wrong = deployment.model_copy(update={"triggers": ({"expect": 7},)})
    with pytest.raises(ConfigurationError, match=r"often__automation_1 .*expect"):
        automations_of(wrong, uuid4())


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("deployments: [", "expected"),
        ("deployments: []", "at least 1 item"),
        ("name: nothing", "deployments"),
        (f"deployments:{DEPLOYMENT}{DEPLOYMENT}", "twice"),
        (
            f"deployments:{DEPLOYMENT}    retries: 3\n",
            r"retries in line \d+: it has no meaning here\. ",
        ),
        (
            f"deployments:{DEPLOYMENT}".replace("interval: 60", "intervall: 60"),
            r"0\.intervall in line \d+: it has no meaning here \(meant: interval\?\)",
        ),
        (f"deployments:{DEPLOYMENT}".replace("UTC", "Europe/Nowhere"), "timezone"),
        (f"deployments:{DEPLOYMENT}".replace("UTC", "../UTC"), "timezone"),
        (f"deployments:{DEPLOYMENT}".replace("interval: 60", "active: true"), "one of cron"),
        (f"deployments:{DEPLOYMENT}".replace("BTC-USD", "'{{ $PRODUCT }}'"), "template"),
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
    if line := re.search(r"(\w+) in line (\d+): it has no meaning", str(caught.value)):
        assert line[1] in text.splitlines()[int(line[2]) - 1]


def test_a_file_that_is_not_there(tmp_path: Path) -> None:
    with pytest.raises(PlanUnusable, match="No such file"):
        read_plan(tmp_path / "prefect.yaml")
