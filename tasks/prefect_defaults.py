"""`flow` and `task` as this project uses them: what a run does, no Prefect profile decides.

Prefect fills in what a decorator leaves out from the settings of the environment, of `.env`,
`prefect.toml` and the profile. A retry there would fetch everything again and report the last
attempt alone; a cached or stored result would be an answer from another day. So each such choice
is made here, and nowhere else; `docs/adr/0011-prefect-settings.md` has the whole list.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any, ParamSpec, TypeVar

import prefect
from prefect import Flow, Task
from prefect.cache_policies import NO_CACHE
from prefect.task_runners import ThreadPoolTaskRunner

P = ParamSpec("P")
R = TypeVar("R")

#: For both: Headrace retries requests itself, keeps its own state, and logs instead of printing.
_COMMON: dict[str, Any] = {
    "retries": 0,
    "retry_delay_seconds": 0,
    "timeout_seconds": None,
    "persist_result": False,
    # Nothing is stored there. It is named so that Prefect neither looks for a default block, which
    # may be missing, nor asks the server for one.
    "result_storage": Path(os.devnull),
    "result_serializer": "pickle",
    "cache_result_in_memory": True,
    "log_prints": False,
}


class _PlainFlow(Flow[P, R]):
    """A flow whose parameters are sent as they are, where they are plain values of JSON.

    Prefect sends all through FastAPI's encoder, which leaves such values as they are. To import
    FastAPI costs a tenth of a second of CPU, and no run needs it otherwise.
    """

    def serialize_parameters(self, parameters: dict[str, Any]) -> dict[str, Any]:
        """As Prefect's."""
        if all(map(_is_plain, parameters.values())):
            return dict(parameters)
        return super().serialize_parameters(parameters)


def _is_plain(value: object) -> bool:
    if type(value) is list:
        return all(map(_is_plain, value))
    return value is None or type(value) in (bool, int, float, str)


def flow(*, name: str) -> Callable[[Callable[P, R]], Flow[P, R]]:
    """Make a function a flow of this name."""
    runner: Any = ThreadPoolTaskRunner(max_workers=sys.maxsize)  # Prefect's own, without a setting

    def decorate(function: Callable[P, R]) -> Flow[P, R]:
        return _PlainFlow(
            function, name=name, task_runner=runner, validate_parameters=True, **_COMMON
        )  # fmt: skip

    return decorate


def task(
    *, name: str, description: str, task_run_name: str | None = None
) -> Callable[[Callable[P, R]], Task[P, R]]:
    """Make a function a task.

    Args:
        name: of the task.
        description: what the UI says of it.
        task_run_name: of each run, a template over the parameters; None for one of Prefect's.
    """

    def decorate(function: Callable[P, R]) -> Task[P, R]:
        return prefect.task(
            name=name,
            description=description,
            task_run_name=task_run_name,
            cache_policy=NO_CACHE,
            refresh_cache=False,
            **_COMMON,
        )(function)

    return decorate
