"""`prefect.yaml` says what can be deployed: entrypoints that exist, parameters that fit, UTC."""

import inspect
import sys
from importlib import import_module
from importlib.metadata import packages_distributions
from pathlib import Path
from zoneinfo import ZoneInfo

import pytest
import yaml
from prefect import Flow
from prefect.client.schemas.schedules import CronSchedule

from headrace.delivery.request import SendRequest

PROJECT = Path(__file__).parents[3]
DEPLOYMENTS = yaml.safe_load((PROJECT / "prefect.yaml").read_text())["deployments"]
IDS = [deployment["name"] for deployment in DEPLOYMENTS]


def flow_of(deployment) -> Flow:
    path, name = deployment["entrypoint"].split(":")
    module = ".".join(Path(path).with_suffix("").parts)
    assert (PROJECT / path).is_file()
    return getattr(import_module(module), name)


def schedules_of(deployment) -> list[dict]:
    single = deployment.get("schedule")
    return [*deployment.get("schedules", []), *([single] if single else [])]


def test_names_are_given_once_per_flow():
    keys = [(flow_of(deployment).name, deployment["name"]) for deployment in DEPLOYMENTS]
    assert len(keys) == len(set(keys)) > 0


@pytest.mark.parametrize("deployment", DEPLOYMENTS, ids=IDS)
def test_the_entrypoint_is_a_flow(deployment):
    assert isinstance(flow_of(deployment), Flow)


@pytest.mark.parametrize("deployment", DEPLOYMENTS, ids=IDS)
def test_its_parameters_exist_and_are_valid_and_none_is_missing(deployment):
    flow = flow_of(deployment)
    given = deployment.get("parameters", {})
    signature = inspect.signature(flow.fn)
    assert set(given) <= set(signature.parameters)
    flow.validate_parameters(given)
    signature.bind(**given)


@pytest.mark.parametrize("deployment", DEPLOYMENTS, ids=IDS)
def test_every_schedule_is_in_utc_so_that_no_run_is_skipped_or_doubled(deployment):
    for schedule in schedules_of(deployment):
        assert schedule["timezone"] == "UTC"
        assert ZoneInfo(schedule["timezone"])
        if "cron" in schedule:
            CronSchedule(cron=schedule["cron"], timezone=schedule["timezone"])


@pytest.mark.parametrize("deployment", DEPLOYMENTS, ids=IDS)
def test_a_second_start_does_not_queue_behind_the_first(deployment):
    limit = deployment["concurrency_limit"]
    is_part = deployment["entrypoint"] == "flows/pull_part.py:pull_part"
    # Parts of spread runs work side by side, as many as one run may have; none is dropped.
    wanted = (50, "ENQUEUE") if is_part else (1, "CANCEL_NEW")
    assert (limit["limit"], limit["collision_strategy"]) == wanted


@pytest.mark.parametrize("given", [{"source": "orders.jsonl"}, {"count": 3}, {}])
def test_requests_are_of_a_file_or_made_whichever_a_run_is_given(given):
    [deployment] = [each for each in DEPLOYMENTS if "keyed_requests" in each["entrypoint"]]
    SendRequest(**{**deployment["parameters"], **given})


def test_no_file_of_flows_bears_the_name_of_a_package():
    """A worker of Prefect puts the folder of a flow's file before everything that is installed.

    What imports a package of such a name gets the file instead, however deep it is in others' code.
    """
    installed = packages_distributions().keys() | sys.stdlib_module_names
    assert {path.stem for path in (PROJECT / "flows").glob("*.py")} & installed == set()
