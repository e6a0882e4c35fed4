"""A command made from the model of a request: its arguments and options are the parameters."""

from __future__ import annotations

import inspect
import typing
from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from typing import TYPE_CHECKING, Annotated, Any, TypeVar

import typer
from annotated_types import Ge, Le
from pydantic.fields import FieldInfo

from headrace.cli.common import logs_are_json
from headrace.run.parameters import Parameter, Parameters

if TYPE_CHECKING:
    from headrace.run.report import Report

RequestType = TypeVar("RequestType", bound=Parameters)
#: Takes the leases that a run will want first; gives the report of a run that must not begin.
Admit = Callable[[RequestType], AbstractContextManager["Report | None"]]

AsJson = Annotated[bool, typer.Option("--json", help="One JSON summary on stdout, nothing else.")]


def command(
    request: type[RequestType], run: Callable[[dict[str, Any], bool], None], *, name: str, text: str
) -> Callable[..., None]:
    """A function for typer that takes the request's parameters and `--json`.

    Args:
        request: the model whose parameters are the options.
        run: called with the parameters as a flow takes them, and whether JSON was asked for.
        name: of the function.
        text: its help; the first line stands in the list of commands.
    """
    parameters = list(request.parameters())
    joined = {each.name for each in parameters if each.form.joined}

    def run_command(**options: Any) -> None:
        as_json = options.pop("as_json")
        given = {
            name: ",".join(value) if name in joined else value for name, value in options.items()
        }
        run(given, as_json)

    arguments = [_argument(each) for each in parameters]
    arguments.append(
        inspect.Parameter(
            "as_json", inspect.Parameter.KEYWORD_ONLY, default=False, annotation=AsJson
        )
    )
    run_command.__name__ = name
    run_command.__doc__ = text
    run_command.__signature__ = inspect.Signature(arguments)  # type: ignore[attr-defined]
    run_command.__annotations__ = {each.name: each.annotation for each in arguments}
    return run_command


def _argument(parameter: Parameter) -> inspect.Parameter:
    kind = _bare(parameter.kind)
    default = inspect.Parameter.empty if parameter.default is ... else parameter.default
    info: Any
    if parameter.form.joined:
        kind, default = list[str], []
    if parameter.form.argument:
        info = typer.Argument(help=parameter.description)
    else:
        variable = parameter.form.variable
        info = typer.Option(
            *_flags(parameter, kind),
            help=f"{parameter.description} [{variable}]" if variable else parameter.description,
            **_bounds(parameter.kind),
        )
    return inspect.Parameter(
        parameter.name,
        inspect.Parameter.KEYWORD_ONLY,
        default=default,
        annotation=Annotated[kind, info],
    )


def _flags(parameter: Parameter, kind: Any) -> tuple[str, ...]:
    flag = "--" + parameter.name.replace("_", "-")
    if kind is bool:
        return (f"{flag}/--no-{flag[2:]}",) if parameter.default else (flag,)
    return (flag, *parameter.form.flags)


def _bare(kind: Any) -> Any:
    """The type without its constraints, down to the items of a list."""
    if typing.get_origin(kind) is Annotated:
        kind = typing.get_args(kind)[0]
    if typing.get_origin(kind) is list:
        return list[_bare(typing.get_args(kind)[0])]  # type: ignore[misc]
    return kind


def _bounds(kind: Any) -> dict[str, Any]:
    """The bounds of a number, as typer names them."""
    bounds: dict[str, Any] = {}
    if typing.get_origin(kind) is not Annotated:
        return bounds
    for extra in typing.get_args(kind)[1:]:
        for limit in extra.metadata if isinstance(extra, FieldInfo) else [extra]:
            if isinstance(limit, Ge):
                bounds["min"] = limit.ge
            if isinstance(limit, Le):
                bounds["max"] = limit.le
    return bounds


def pipeline_command(
    flow: str,
    request: type[RequestType],
    text: str,
    *,
    name: str = "",
    admit: Admit[RequestType] | None = None,
    check: Callable[[RequestType, bool], None] | None = None,
) -> Callable[..., None]:
    """The command of a pipeline.

    Args:
        flow: name of the flow, and of its module in `flows`.
        request: the model of its parameters.
        text: the help.
        name: of the command; that of the flow unless given.
        admit: see `Admit`; without one the flow itself finds out.
        check: called with the request, and whether JSON was asked for, before anything starts.
    """

    def run(parameters: dict[str, Any], as_json: bool) -> None:
        from headrace.cli.display import Display  # these are not for help
        from headrace.cli.running import run_pipeline
        from headrace.products.choice import ProductChoice

        asked = request.checked(**parameters)
        if isinstance(asked, ProductChoice) and (of_file := asked.of_file()):
            # Read once, here: it may be a pipe.
            parameters = {**parameters, **of_file}
            asked = request.checked(**parameters)
        if check is not None:
            check(asked, as_json)
        admitted = admit(asked) if admit is not None else nullcontext()
        # A replay to standard output has it for itself.
        display = Display(
            quiet=as_json, as_lines=logs_are_json(), on_stderr=parameters.get("out") == "-"
        )
        run_pipeline(flow, parameters, display, admitted, as_json=as_json)

    return command(request, run, name=name or flow, text=text)
