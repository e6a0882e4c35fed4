"""A pipeline as a Prefect flow: its flat parameters come from the model of its request."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import Any, Protocol, TypeVar

from prefect import Flow
from prefect.runtime import flow_run

from headrace.errors import HeadraceError
from headrace.leases import LeaseHeld
from headrace.run.parameters import Parameters
from headrace.run.report import Report
from tasks.kernel import finish, state_of_error, ui_url
from tasks.prefect_defaults import flow

RequestType = TypeVar("RequestType", bound=Parameters)
Contra = TypeVar("Contra", bound=Parameters, contravariant=True)


class Refusal(Protocol[Contra]):
    """Makes the report of a run that found another at the same work."""

    def __call__(
        self, request: Contra, held: LeaseHeld, *, run_id: str, ui_url: str | None
    ) -> Report:
        """The report; its status is `running_elsewhere`."""


def pipeline(
    name: str, request: type[RequestType], *, refused: Refusal[RequestType] | None = None
) -> Callable[[Callable[[RequestType], Any]], Flow[..., Any]]:
    """A decorator that makes a flow from a function of a checked request.

    The flow takes the request's parameters one by one, so that forms, deployments and
    `prefect deployment run -p workers=5` set them; it has the function's docstring, completed by
    what the model says of each parameter.

    Args:
        name: of the flow.
        request: the model. A value that it refuses raises ConfigurationError before anything is
            opened.
        refused: reports a run that found the lease held by another: it ends as AlreadyRunning.
            None for a pipeline whose parts have leases of their own.
    """

    def decorate(run: Callable[[RequestType], Any]) -> Flow[..., Any]:
        signature = _signature(request)

        def flow_function(*args: Any, **kwargs: Any) -> Any:
            try:
                asked = request.checked(**signature.bind(*args, **kwargs).arguments)
                try:
                    return run(asked)
                except LeaseHeld as held:
                    if refused is None:
                        raise
                    report = refused(asked, held, run_id=str(flow_run.id), ui_url=ui_url())
                    return finish(report)
            except HeadraceError as error:
                return state_of_error(error)

        flow_function.__name__ = run.__name__
        flow_function.__qualname__ = run.__qualname__
        flow_function.__module__ = run.__module__
        flow_function.__doc__ = _docstring(run, request)
        flow_function.__signature__ = signature  # type: ignore[attr-defined]
        return flow(name=name)(flow_function)

    return decorate


def _signature(request: type[Parameters]) -> inspect.Signature:
    """The parameters of a request, those that must be given first."""
    given = [
        inspect.Parameter(
            parameter.name,
            inspect.Parameter.POSITIONAL_OR_KEYWORD,
            default=inspect.Parameter.empty if parameter.default is ... else parameter.default,
            annotation=parameter.annotation,
        )
        for parameter in request.parameters()
    ]
    return inspect.Signature(
        sorted(given, key=lambda parameter: parameter.default is not inspect.Parameter.empty)
    )


def _docstring(run: Callable[..., Any], request: type[Parameters]) -> str:
    """Prefect takes the help of a form's field from the section `Args`."""
    lines = [f"    {each.name}: {each.description}" for each in request.parameters()]
    return "\n".join([inspect.getdoc(run) or "", "", "Args:", *lines])
