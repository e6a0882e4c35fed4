"""The example of a new pipeline in CONTRIBUTING.md runs, and shows what all runs show."""

from __future__ import annotations

import re
import sys
from dataclasses import dataclass
from pathlib import Path
from types import ModuleType
from typing import Annotated
from uuid import UUID

import pytest
from prefect import task
from prefect.client.orchestration import get_client
from prefect.client.schemas.filters import ArtifactFilter, ArtifactFilterFlowRunId
from prefect.states import State
from pydantic import Field

from headrace.cli import running
from headrace.cli.options import pipeline_command
from headrace.lake.names import product_prefix
from headrace.run.parameters import Form, Parameters
from headrace.run.progress import StepProgress
from headrace.run.report import Report, Sheet, Status
from tasks import kernel
from tasks.pipeline import pipeline

PAGE = Path(__file__).parents[2] / "CONTRIBUTING.md"
NAMES = {
    "Annotated": Annotated,
    "Field": Field,
    "Form": Form,
    "Parameters": Parameters,
    "Path": Path,
    "Report": Report,
    "Sheet": Sheet,
    "State": State,
    "Status": Status,
    "StepProgress": StepProgress,
    "dataclass": dataclass,
    "pipeline": pipeline,
    "pipeline_command": pipeline_command,
    "product_prefix": product_prefix,
    "task": task,
    **{
        name: getattr(kernel, name)
        for name in (
            "PipelineRun",
            "ProgressArtifact",
            "announce",
            "conclude",
            "find_run",
            "opening",
            "registered",
            "ui_url",
        )
    },
}


@pytest.fixture
def example(monkeypatch):
    """The module that the page's code makes, found as a flow of the project would be."""
    [code] = re.findall(r"```python\n(.*?)```", PAGE.read_text(encoding="utf-8"), re.DOTALL)
    module = ModuleType("flows.count")
    monkeypatch.setitem(sys.modules, "flows.count", module)
    vars(module).update(NAMES)
    exec(compile(code, str(PAGE), "exec", dont_inherit=True), vars(module))
    return module


@pytest.fixture
def lake(tmp_path):
    folder = tmp_path / product_prefix("coinbase", "BTC-USD")
    folder.mkdir(parents=True)
    for number in range(3):
        (folder / f"part-{number}.parquet").touch()
    return tmp_path


def test_its_report_is_the_data_of_its_state_and_in_the_ui(example, lake):
    state = example.count(["BTC-USD", "ETH-USD"], lake=str(lake), return_state=True)
    report = state.result()
    assert report.parts == {"BTC-USD": 3, "ETH-USD": 0}
    assert state.message == "parts counted: 3 parts"
    with get_client(sync_client=True) as client:
        of_the_run = ArtifactFilter(flow_run_id=ArtifactFilterFlowRunId(any_=[UUID(report.run)]))
        keys = {each.key for each in client.read_artifacts(artifact_filter=of_the_run)}
    assert {"headrace-count", "headrace-summary", "headrace-progress"} <= keys


def test_its_command_takes_the_parameters_and_prints_the_summary(
    example, lake, monkeypatch, capsys
):
    codes = []
    monkeypatch.setattr(running, "bounded_exit", lambda code, drain_s: codes.append(code))
    example.command(products=["BTC-USD"], lake=str(lake), as_json=True)
    assert codes == [0]
    assert '"parts": {"BTC-USD": 3}' in capsys.readouterr().out
