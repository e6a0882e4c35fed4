"""The work-pool templates are what Prefect's server takes, and what its workers make jobs of."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path

import pytest
from prefect.server.schemas.actions import WorkPoolCreate
from prefect.settings import PREFECT_API_URL, temporary_settings
from prefect.utilities.schema_tools.validation import validate
from prefect_aws.workers.ecs_worker import ECSJobConfiguration

FOLDER = Path(__file__).parents[3] / "deploy/work-pools"
TEMPLATES = {path.stem: json.loads(path.read_text()) for path in sorted(FOLDER.glob("*.json"))}
#: What has no default.
GIVEN = {
    "kubernetes": {"image": "registry.example/headrace@sha256:1"},
    "ecs": {
        "image": "registry.example/headrace@sha256:1",
        "execution_role_arn": "arn:aws:iam::1:role/start",
        "task_role_arn": "arn:aws:iam::1:role/lake",
    },
}


@pytest.mark.parametrize("kind", GIVEN)
def test_the_server_takes_it(kind: str) -> None:
    template = TEMPLATES[kind]
    WorkPoolCreate(name="headrace", type=kind, base_job_template=template)
    variables = template["variables"]
    assert set(variables["required"]) <= GIVEN[kind].keys()
    defaults = {
        name: each["default"] for name, each in variables["properties"].items() if "default" in each
    }
    assert validate({**defaults, **GIVEN[kind]}, variables, raise_on_error=False) == []
    assert validate({**defaults, "image": 7}, variables, raise_on_error=False)
    used = json.dumps(template["job_configuration"])
    for name, each in variables["properties"].items():
        assert each["description"]
        assert f"{{{{ {name} }}}}" in used, f"{name} is used nowhere"


def test_jobs_run_without_root_and_have_time_to_end() -> None:
    job = TEMPLATES["kubernetes"]["job_configuration"]["job_manifest"]
    pod = job["spec"]["template"]["spec"]
    assert pod["securityContext"]["runAsUser"] == 10001
    assert (pod["terminationGracePeriodSeconds"], job["spec"]["backoffLimit"]) == (60, 0)
    [container] = TEMPLATES["ecs"]["job_configuration"]["task_definition"]["containerDefinitions"]
    assert (container["user"], container["stopTimeout"]) == ("10001:10001", 60)


def test_an_ecs_worker_makes_a_task_of_it() -> None:
    secrets = [{"name": "HEADRACE_QUOTA", "valueFrom": "arn:aws:secretsmanager:x"}]
    given = {**GIVEN["ecs"], "secrets": secrets}
    # Nothing is asked of the API: the template names no block and no variable of the server.
    with temporary_settings({PREFECT_API_URL: "http://127.0.0.1:1/api"}):
        made = asyncio.run(ECSJobConfiguration.from_template_and_values(TEMPLATES["ecs"], given))
    [container] = made.task_definition["containerDefinitions"]
    assert (container["image"], container["secrets"]) == (given["image"], secrets)
    assert made.task_run_request["overrides"]["taskRoleArn"] == given["task_role_arn"]
