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


def flow(*, name: str) -> Callable[[Callable[P, R]], Flow[P, R]]:
    """Make a function a flow of this name."""
    runner: Any = ThreadPoolTaskRunner(max_workers=sys.maxsize)  # Prefect's own, without a setting

    def decorate(function: Callable[P, R]) -> Flow[P, R]:
        return prefect.flow(
            name=name, task_runner=runner, validate_parameters=True, **_COMMON
        )(function)  # fmt: skip

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
