"""Every option of a command is a parameter of its flow and the other way round, in all respects."""

import inspect
import typing
from importlib import import_module
from pathlib import Path

import annotated_types
import pytest
from pydantic.fields import FieldInfo
from typer.models import ArgumentInfo, OptionInfo

from headrace.cli.main import app
from headrace.cli.sot import app as sot

FLOWS = Path(__file__).parents[2] / "flows"
COMMANDS = {command.name: command.callback for command in app.registered_commands}
COMMANDS |= {f"sot_{command.name}": command.callback for command in sot.registered_commands}
NAMES = sorted(path.stem for path in FLOWS.glob("*.py") if path.stem in COMMANDS)

#: It is about how the command speaks, not about what the flow does.
OF_THE_COMMAND_ALONE = "as_json"

#: A repeatable option whose values reach the flow joined by commas.
JOINED = "rate"


def flow_of(name):
    return getattr(import_module(f"flows.{name}"), name)


def parameters_of(name: str) -> dict[str, inspect.Parameter]:
    return dict(inspect.signature(flow_of(name).fn, eval_str=True).parameters)


def options_of(name: str) -> dict[str, inspect.Parameter]:
    found = dict(inspect.signature(COMMANDS[name], eval_str=True).parameters)
    assert found.pop(OF_THE_COMMAND_ALONE).default is False
    return found


def kind_of(parameter: inspect.Parameter) -> object:
    """The bare type; a list that may be left out on the command line is None there, not []."""
    kind = parameter.annotation
    if typing.get_origin(kind) is typing.Annotated:
        kind = typing.get_args(kind)[0]
    if typing.get_origin(kind) is list:
        # What the form says of each item is no part of the kind.
        [item] = typing.get_args(kind)
        kind = list[typing.get_args(item)[0] if typing.get_args(item) else item]
    optional = {list[item] | None: list[item] for item in (str, int)}
    return optional.get(kind, kind)


def default_of(parameter: inspect.Parameter) -> object:
    left_out = parameter.default is None and typing.get_origin(kind_of(parameter)) is list
    return [] if left_out else parameter.default


def option_info(option: inspect.Parameter) -> OptionInfo | ArgumentInfo:
    [info] = typing.get_args(option.annotation)[1:]
    return info


def bounds_of(parameter: inspect.Parameter) -> dict[str, float | None]:
    bounds: dict[str, float | None] = {"min": None, "max": None}
    for extra in typing.get_args(parameter.annotation)[1:]:
        for limit in extra.metadata if isinstance(extra, FieldInfo) else [extra]:
            if isinstance(limit, annotated_types.Ge):
                bounds["min"] = limit.ge
            if isinstance(limit, annotated_types.Le):
                bounds["max"] = limit.le
    return bounds


def test_there_are_flows_with_commands():
    assert {"backfill", "sot_write", "sot_verify", "sot_recover", "sot_migrate"} <= set(NAMES)


@pytest.mark.parametrize("name", NAMES)
def test_names_are_the_same(name):
    assert list(options_of(name)) == list(parameters_of(name))


@pytest.mark.parametrize("name", NAMES)
def test_an_option_is_spelled_as_its_parameter(name):
    for key, option in options_of(name).items():
        spelled = option_info(option).param_decls or ()
        assert set(spelled) <= {"--" + key.replace("_", "-")}, key


@pytest.mark.parametrize("name", NAMES)
def test_defaults_are_the_same(name):
    options = options_of(name)
    for key, parameter in parameters_of(name).items():
        default = default_of(options[key])
        if key == JOINED:
            default = ",".join(default)
        assert default == default_of(parameter), key


@pytest.mark.parametrize("name", NAMES)
def test_kinds_are_the_same(name):
    options = options_of(name)
    for key, parameter in parameters_of(name).items():
        kind = kind_of(options[key])
        assert kind == (list[str] if key == JOINED else kind_of(parameter)), key


@pytest.mark.parametrize("name", NAMES)
def test_bounds_are_the_same(name):
    options = options_of(name)
    for key, parameter in parameters_of(name).items():
        info = option_info(options[key])
        assert {"min": info.min, "max": info.max} == bounds_of(parameter), key


@pytest.mark.parametrize("name", NAMES)
def test_every_parameter_is_explained_in_the_form_and_in_the_help(name):
    form = flow_of(name).parameters.properties
    options = options_of(name)
    for key in parameters_of(name):
        assert form[key].get("description"), key
        assert option_info(options[key]).help, key


@pytest.mark.parametrize("name", NAMES)
def test_the_form_shows_the_bounds(name):
    form = flow_of(name).parameters.properties
    for key, parameter in parameters_of(name).items():
        shown = {"min": form[key].get("minimum"), "max": form[key].get("maximum")}
        assert shown == bounds_of(parameter), key
