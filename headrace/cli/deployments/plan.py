"""`prefect.yaml` as a checked list: the part of Prefect's format that this project uses.

Prefect reads the same file for `prefect deploy --all`, so what it would read differently is refused
here rather than left out.
"""

from __future__ import annotations

import re
from pathlib import Path
from typing import Annotated, Any, Literal

import yaml
from pydantic import BaseModel, ConfigDict, Field, ValidationError, field_validator

from headrace import __version__
from headrace.errors import ConfigurationError
from headrace.project import project_folder

_FILE = "prefect.yaml"


class PlanUnusable(ConfigurationError):
    """The file with the deployments cannot be read, or does not say what it must."""

    def __init__(self, path: Path, problem: str) -> None:
        super().__init__(
            f"the deployments in {path} cannot be used: {problem}",
            hint="Correct the file, or name another one with --deployments",
        )
        self.path = path
        self.problem = problem


class _Section(BaseModel):
    """What is written in a file by hand: an unknown field is a mistake."""

    model_config = ConfigDict(frozen=True, extra="forbid")


class PlannedSchedule(_Section):
    """When a deployment runs by itself: by cron or every so many seconds, in UTC.

    `slug` is what it is found again by; one that has none is known by its times. `active` says
    whether `headrace up --schedules` switches it on; `prefect deploy` takes it at its word.
    """

    slug: str = ""
    cron: str | None = None
    interval: Annotated[float, Field(gt=0)] | None = None
    timezone: Literal["UTC"]
    active: bool = True

    def model_post_init(self, _context: Any) -> None:
        """Refuse a schedule that is both or neither."""
        if (self.cron is None) == (self.interval is None):
            raise ValueError("a schedule needs either cron or interval")

    @property
    def key(self) -> str:
        """What the server knows it by: letters, digits and dashes."""
        times = self.cron or f"every {self.interval:g} s"
        return self.slug or re.sub(r"[^a-z0-9]+", "-", times.replace("*", "x").lower()).strip("-")


class ConcurrencyLimit(_Section):
    """How many runs of one deployment there may be, and what becomes of one more."""

    limit: Annotated[int, Field(ge=1)]
    collision_strategy: Literal["ENQUEUE", "CANCEL_NEW"]
    grace_period_seconds: Annotated[int, Field(ge=60, le=86_400)] | None = None


class PlannedDeployment(_Section):
    """One deployment of a flow.

    Attributes:
        entrypoint: `flows/NAME.py:FUNCTION`, relative to the file's folder.
        version: that of Headrace where the file says none.
        parameters: what the form starts with, and what a schedule runs with.
        work_pool: where `prefect deploy` sends it; served runs need none.
        build, push, pull: steps of `prefect deploy` and of its workers, to bring the code there;
            served runs use the code where it is.
    """

    name: str
    entrypoint: Annotated[str, Field(pattern=r"^[\w/]+\.py:\w+$")]
    description: str
    tags: tuple[str, ...] = ()
    version: str = __version__
    parameters: dict[str, Any] = {}
    schedules: tuple[PlannedSchedule, ...] = ()
    concurrency_limit: ConcurrencyLimit
    work_pool: dict[str, Any] = {}
    build: tuple[dict[str, Any], ...] | None = None
    push: tuple[dict[str, Any], ...] | None = None
    pull: tuple[dict[str, Any], ...] | None = None

    @field_validator("description")
    @classmethod
    def _in_one_line(cls, text: str) -> str:
        return " ".join(text.split())

    @property
    def module(self) -> str:
        """The module of the flow, as it is imported: `flows.backfill`."""
        return self.entrypoint.partition(".py:")[0].replace("/", ".")

    @property
    def function(self) -> str:
        """The flow's name in its module."""
        return self.entrypoint.partition(".py:")[2]


class Plan(BaseModel):
    """All deployments of a project."""

    model_config = ConfigDict(frozen=True, extra="ignore")

    deployments: Annotated[tuple[PlannedDeployment, ...], Field(min_length=1)]


def default_plan_path() -> Path:
    """The project's own file."""
    return project_folder() / _FILE


def read_plan(path: Path) -> Plan:
    """Read and check the list.

    Raises:
        PlanUnusable: it cannot be read, is not YAML, or says something that is not known here.
    """
    try:
        content = yaml.safe_load(path.read_text(encoding="utf-8"))
        plan = Plan.model_validate(content)
    except OSError as error:
        raise PlanUnusable(path, error.strerror or str(error)) from error
    except UnicodeDecodeError as error:
        raise PlanUnusable(path, "it is not UTF-8 text") from error
    except yaml.YAMLError as error:
        raise PlanUnusable(path, " ".join(str(error).split())) from error
    except ValidationError as error:
        first = error.errors()[0]
        where = ".".join(map(str, first["loc"])) or "the file"
        raise PlanUnusable(path, f"{where}: {first['msg']}") from error
    names = [(each.entrypoint, each.name) for each in plan.deployments]
    if twice := [name for name in names if names.count(name) > 1]:
        raise PlanUnusable(path, f"{' '.join(twice[0])} is there twice")
    return plan
