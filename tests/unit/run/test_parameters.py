"""A parameter is declared once: form, option and checked request come from one field."""

from __future__ import annotations

import inspect
import typing
from importlib import import_module
from pathlib import Path
from typing import Annotated, ClassVar

import pytest
import typer
from pydantic import Field
from typer.testing import CliRunner

from headrace.audit.request import AuditRequest
from headrace.cli.options import command
from headrace.delivery.request import SendRequest
from headrace.errors import ConfigurationError
from headrace.looker.extract.request import ExtractRequest
from headrace.looker.validate.request import ValidateRequest
from headrace.pull.request import IngestRequest, PullRequest
from headrace.quota.config import OUTAGE_LIMIT_S
from headrace.run.parameters import Form, Parameters
from tasks.pipeline import pipeline

FLOWS = sorted(path.stem for path in (Path(__file__).parents[3] / "flows").glob("[a-z]*.py"))


class Base(Parameters):
    workers: Annotated[
        int, Field(ge=1, le=9, title="At once", description="How many.", examples=[2])
    ] = 3


class Request(Base):
    internal: ClassVar[frozenset[str]] = frozenset({"hidden"})

    hidden: str = "as it is"
    last: Annotated[
        int | None,
        Field(ge=1, title="Last", description="The last id.", examples=[7]),
        Form(Annotated[int, Field(ge=0)], empty=0),
    ] = None
    names: Annotated[
        tuple[str, ...],
        Field(min_length=1, title="Names", description="What to take.", examples=[["a"]]),
        Form(Annotated[list[str], Field(min_length=1)], argument=True),
    ]
    log: Annotated[
        str,
        Field(min_length=1, title="Log", description="Where to.", examples=["here"]),
        Form(str, empty="", setting="sot"),
    ]
    rate: Annotated[
        str, Field(title="Rate", description="How fast.", examples=["1/s"]), Form(joined=True)
    ] = ""
    keep: Annotated[bool, Field(title="Keep", description="Keep it.", examples=[True])] = True


@pipeline("example", Request)
def example(request: Request) -> Request:
    """Do something."""
    return request


def run(*words: str) -> tuple[dict, bool]:
    """What the command hands on."""
    seen = []
    app = typer.Typer()
    app.command()(
        command(Request, lambda given, as_json: seen.append((given, as_json)), name="x", text="X.")
    )
    outcome = CliRunner().invoke(app, list(words))
    assert outcome.exit_code == 0, outcome.output
    [handed_on] = seen
    return handed_on


def test_what_the_form_leaves_empty_is_not_given(monkeypatch):
    monkeypatch.setenv("HEADRACE_SOT", "configured")
    request = Request.checked(names=["a"], last=0, log="")
    assert (request.last, request.log, request.names) == (None, "configured", ("a",))


def test_what_is_given_is_kept():
    request = Request.checked(names=["a"], last=5, log="mine", workers=9)
    assert (request.last, request.log, request.workers) == (5, "mine", 9)


@pytest.mark.parametrize(
    ("wrong", "named"),
    [({"workers": 10}, "workers: .*given: 10"), ({"names": []}, "names: "), ({"x": 1}, "x: ")],
)
def test_a_value_that_cannot_be_used_is_named(wrong, named):
    with pytest.raises(ConfigurationError, match=named):
        Request.checked(**{"names": ["a"], "log": "here"} | wrong)


@pytest.mark.parametrize(
    ("name", "value", "option"),
    [
        ("coinbase_url", "127.0.0.1:8081", "base_url"),
        ("rate", "50 per second", "rate"),
    ],
)
def test_a_setting_that_cannot_be_used_is_named_by_its_place(
    tmp_path, monkeypatch, name, value, option
):
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv(f"HEADRACE_{name.upper()}", raising=False)
    file = tmp_path / "headrace.toml"
    file.write_text(f'lake = "x"\n\n{name} = "{value}"\n')
    pulled = {"products": ["BTC-USD"]}
    with pytest.raises(ConfigurationError) as refused:
        PullRequest.checked(**pulled, **{option: ""})
    assert refused.value.message.startswith(f"{file}:3: {name} '{value}'")
    assert refused.value.hint
    monkeypatch.setenv(f"HEADRACE_{name.upper()}", value)
    with pytest.raises(ConfigurationError, match=f"^HEADRACE_{name.upper()} '{value}'"):
        PullRequest.checked(**pulled)
    with pytest.raises(ConfigurationError, match=f"^{option} 'no.such.value'"):
        PullRequest.checked(**pulled, **{option: "no such value"})


def test_the_form_has_the_fields_of_the_model():
    form = example.parameters
    assert form.required == ["names"]
    assert list(form.properties) == ["names", "last", "log", "rate", "keep", "workers"]
    assert form.properties["last"] == {
        "default": 0,
        "description": "The last id.",
        "examples": [7],
        "minimum": 0,
        "position": 1,
        "title": "Last",
        "type": "integer",
    }
    assert form.properties["workers"]["maximum"] == 9


def test_the_flow_gets_the_checked_request():
    assert example.fn(["a"], log="here", last=2) == Request(names=("a",), log="here", last=2)


def test_the_command_has_the_options_of_the_model():
    given, as_json = run("a", "b", "--last", "2", "--rate", "1/s", "--rate", "5/m", "--no-keep")
    assert not as_json
    assert given == {
        "names": ["a", "b"],
        "last": 2,
        "log": "",
        "rate": "1/s,5/m",
        "keep": False,
        "workers": 3,
    }
    assert run("a", "--json")[1]


def test_the_command_refuses_what_the_form_refuses():
    app = typer.Typer()
    app.command()(command(Request, lambda _given, _as_json: None, name="x", text="X."))
    outcome = CliRunner().invoke(app, ["a", "--workers", "10"])
    assert outcome.exit_code == 2
    assert "workers" in outcome.output


def test_an_ingest_has_no_range():
    names = {parameter.name for parameter in IngestRequest.parameters()}
    assert names - {"first_ingest_hours"} < {
        parameter.name for parameter in PullRequest.parameters()
    }
    assert not names & {"from_id", "to_id", "since", "until", "last", "planner"}


@pytest.mark.parametrize("name", FLOWS)
def test_every_pipeline_explains_each_parameter(name):
    flow = getattr(import_module(f"flows.{name}"), name)
    for key, parameter in inspect.signature(flow.fn).parameters.items():
        assert typing.get_origin(parameter.annotation) is Annotated, key
        field = flow.parameters.properties[key]
        assert field["title"], key
        assert field["description"], key
        assert field["examples"], key


def test_every_run_waits_for_a_source_equally_long_unless_asked_otherwise() -> None:
    found = {
        request.__name__: parameter.default
        for request in (PullRequest, IngestRequest, AuditRequest, ExtractRequest, ValidateRequest)
        for parameter in request.parameters()
        if parameter.name == "outage_limit_s"
    }
    assert len(found) >= 3
    assert set(found.values()) == {OUTAGE_LIMIT_S}


def test_what_a_pattern_refuses_is_answered_with_an_example() -> None:
    with pytest.raises(ConfigurationError) as refused:
        SendRequest.checked(base_url="ftp://x")
    assert str(refused.value) == (
        "base_url: it is not written as it has to be (given: 'ftp://x'). "
        "Write for example https://api.example.com"
    )
