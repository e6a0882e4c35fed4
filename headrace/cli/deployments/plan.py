"""`prefect.yaml` as a checked list: what `headrace up` does with Prefect's format.

Prefect reads the same file for `prefect deploy --all`. What says how code comes to a worker means
nothing where runs use the code in place: it is accepted, and named in `Plan.ignored`. What Prefect
would read differently, or not at all, is refused.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from datetime import datetime, timedelta
from difflib import get_close_matches
from pathlib import Path
from typing import Annotated, Any, Literal
from zoneinfo import ZoneInfo

import yaml
from pydantic import (
    AfterValidator,
    BaseModel,
    BeforeValidator,
    Field,
    ValidationError,
    field_validator,
    model_validator,
)

from headrace import __version__
from headrace.errors import ConfigurationError, PlaceError
from headrace.project import project_folder

_FILE = "prefect.yaml"


class PlanUnusable(PlaceError, ConfigurationError):
    """The file with the deployments cannot be read, or does not say what it must."""

    said = "the deployments in {where} cannot be used: {reason}"
    way_out = "Correct the file, or name another one with --deployments"


class _Section(BaseModel, frozen=True, extra="forbid"):
    """What is written in a file by hand: an unknown field is a mistake."""


def _zone(name: str) -> str:
    try:
        ZoneInfo(name)
    except (KeyError, OSError, ValueError) as error:
        raise ValueError(f"no time zone is called {name!r}; Europe/Berlin is one") from error
    return name


class PlannedSchedule(_Section):
    """When a deployment runs by itself: by cron, by an rrule or every so many seconds.

    `slug` is what it is found again by; one that has none is known by its times. `active` says
    whether `headrace up --schedules` switches it on; `prefect deploy` takes it at its word.
    """

    slug: str = ""
    cron: str | None = None
    day_or: bool | None = None
    interval: Annotated[timedelta, Field(gt=timedelta(0))] | None = None
    anchor_date: datetime | None = None
    rrule: str | None = None
    timezone: Annotated[str, AfterValidator(_zone)] = "UTC"
    active: bool = True
    parameters: dict[str, Any] = {}
    replaces: str = ""

    @model_validator(mode="after")
    def _one_kind(self) -> PlannedSchedule:
        if sum(each is not None for each in (self.cron, self.interval, self.rrule)) != 1:
            raise ValueError("a schedule needs one of cron, interval and rrule")
        return self

    @property
    def key(self) -> str:
        """What the server knows it by: letters, digits and dashes."""
        every = f"every {self.interval.total_seconds():g} s" if self.interval else ""
        times = self.cron or self.rrule or every
        return self.slug or re.sub(r"[^a-z0-9]+", "-", times.replace("*", "x").lower()).strip("-")


class ConcurrencyLimit(_Section):
    """How many runs of one deployment there may be, and what becomes of one more."""

    limit: Annotated[int, Field(ge=1)]
    collision_strategy: Literal["ENQUEUE", "CANCEL_NEW"] = "ENQUEUE"
    grace_period_seconds: Annotated[int, Field(ge=60, le=86_400)] | None = None

    @model_validator(mode="before")
    @classmethod
    def _of_number(cls, given: Any) -> Any:
        return {"limit": given} if isinstance(given, int) else given


def _listed(given: Any) -> Any:
    """Steps of an action, which may be given as a single one."""
    return [given] if isinstance(given, dict) and given else given or ()


Steps = Annotated[tuple[dict[str, Any], ...], BeforeValidator(_listed)]


class PlannedDeployment(_Section):
    """One deployment of a flow.

    Attributes:
        entrypoint: `flows/NAME.py:FUNCTION`, relative to the file's folder.
        version: that of Headrace where the file says none.
        parameters: what the form starts with, and what a schedule runs with.
        triggers: events that start a run, in Prefect's terms.
        work_pool: where `prefect deploy` sends it; served runs need none.
        build, push, pull: steps of `prefect deploy` and of its workers, to bring the code there;
            served runs use the code where it is.
        sla, flow_name, version_type, enforce_parameter_schema: of `prefect deploy` alone.
    """

    name: str
    entrypoint: Annotated[str, Field(pattern=r"^[\w/]+\.py:\w+$")]
    description: str = ""
    tags: tuple[str, ...] = ()
    version: str = __version__
    parameters: dict[str, Any] = {}
    schedules: tuple[PlannedSchedule, ...] = ()
    triggers: tuple[dict[str, Any], ...] = ()
    concurrency_limit: ConcurrencyLimit | None = None
    paused: bool = False
    work_pool: dict[str, Any] = {}
    build: Steps = ()
    push: Steps = ()
    pull: Steps = ()
    sla: tuple[dict[str, Any], ...] = ()
    flow_name: str | None = None
    version_type: str | None = None
    enforce_parameter_schema: bool = True

    @model_validator(mode="before")
    @classmethod
    def _as_prefect_takes_it(cls, given: Any) -> Any:
        """One schedule in the place of several, tags as a text, and null for what is left out."""
        if not isinstance(given, dict):
            return given
        known = {name: value for name, value in given.items() if value is not None}
        if "schedule" in known and "schedules" not in known:
            known["schedules"] = [known.pop("schedule")]
        if isinstance(tags := known.get("tags"), str):
            known["tags"] = [tags]
        return known

    @model_validator(mode="after")
    def _without_templates(self) -> PlannedDeployment:
        """`prefect deploy` fills them in; here nothing would."""
        if self.name == "*" or any("{{" in text for text in _texts(self._used())):
            raise ValueError(
                "holds a template ({{ ... }}), which only `prefect deploy` fills in; "
                "write the value itself"
            )
        return self

    def _used(self) -> dict[str, Any]:
        return self.model_dump(
            include={"name", "description", "tags", "version", "parameters", "schedules"}
        )

    @property
    def ignored(self) -> list[str]:
        """What it says that means nothing to served runs, by its name in the file."""
        said = [name for name in ("build", "push", "pull", "sla") if getattr(self, name)]
        said += [name for name in ("flow_name", "version_type") if getattr(self, name)]
        if self.work_pool.get("job_variables"):
            said.append("work_pool.job_variables")
        if not self.enforce_parameter_schema:
            said.append("enforce_parameter_schema")
        if any(schedule.replaces for schedule in self.schedules):
            said.append("schedules.replaces")
        return said

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

    @property
    def shown_flow(self) -> str:
        """What Prefect calls a flow that has no name of its own: `sot-verify`."""
        return self.function.replace("_", "-")


class Plan(BaseModel, frozen=True, extra="ignore"):
    """All deployments of a project, and the steps for those that say none of their own."""

    deployments: Annotated[tuple[PlannedDeployment, ...], Field(min_length=1)]
    build: Steps = ()
    push: Steps = ()
    pull: Steps = ()

    @property
    def ignored(self) -> list[str]:
        """What the file says that means nothing to served runs, a line for each."""
        where = {name: ["all"] for name in ("build", "push", "pull") if getattr(self, name)}
        for each in self.deployments:
            for name in each.ignored:
                where.setdefault(name, []).append(f"{each.function}/{each.name}")
        return [f"{name} ({', '.join(names)}): {_WHY[name]}" for name, names in where.items()]


_IN_PLACE = "a step of `prefect deploy` and its workers; served runs use the code in place"
_WHY = {
    "build": _IN_PLACE,
    "push": _IN_PLACE,
    "pull": _IN_PLACE,
    "sla": "Prefect Cloud alone watches it",
    "flow_name": "the flow keeps its own name",
    "version_type": "a version is the text that is given",
    "work_pool.job_variables": "of a work pool; served runs have the environment of `headrace up`",
    "enforce_parameter_schema": "parameters are always checked against the form",
    "schedules.replaces": "a schedule whose slug has left the file is deleted anyway",
}


def _texts(value: Any) -> Iterator[str]:
    """Every text in a value, however deep."""
    if isinstance(value, str):
        yield value
    elif isinstance(value, dict):
        for each in value.values():
            yield from _texts(each)
    elif isinstance(value, list | tuple):
        for each in value:
            yield from _texts(each)


def trigger_name(planned: PlannedDeployment, place: int) -> str:
    """What the server knows a trigger by: its name in the file, else the one Prefect gives it."""
    given = planned.triggers[place].get("name")
    return str(given) if given else f"{planned.name}__automation_{place + 1}"


def trigger_tag(deployment_id: object) -> str:
    """What marks the automations of a deployment: the server does not say whose they are."""
    return f"headrace-trigger-of-{deployment_id}"


def default_plan_path() -> Path:
    """The project's own file."""
    return project_folder() / _FILE


def _line_of(loc: Sequence[str | int], text: str) -> int:
    """Where a field stands, from 1; a field that is missing, where it should."""
    node = yaml.compose(text, Loader=yaml.SafeLoader)
    mark = node.start_mark if node else None
    for step in loc:
        if isinstance(node, yaml.SequenceNode) and isinstance(step, int):
            node = node.value[step]
            mark = node.start_mark
        elif isinstance(node, yaml.MappingNode):
            found = [pair for pair in node.value if pair[0].value == step]
            if not found:
                break
            mark, node = found[0][0].start_mark, found[0][1]
    return mark.line + 1 if mark else 1


def read_plan(path: Path) -> Plan:
    """Read and check the list.

    Raises:
        PlanUnusable: it cannot be read, is not YAML, or says something that is not known here.
    """
    text = ""
    try:
        text = path.read_text(encoding="utf-8")
        plan = Plan.model_validate(yaml.safe_load(text))
    except OSError as error:
        raise PlanUnusable(path, error.strerror or str(error)) from error
    except UnicodeDecodeError as error:
        raise PlanUnusable(path, "it is not UTF-8 text") from error
    except yaml.YAMLError as error:
        raise PlanUnusable(path, " ".join(str(error).split())) from error
    except ValidationError as error:
        first = error.errors()[0]
        where = ".".join(map(str, first["loc"])) or "the file"
        problem = first["msg"]
        if first["type"] == "extra_forbidden":
            known = {name for kind in _Section.__subclasses__() for name in kind.model_fields}
            near = get_close_matches(str(first["loc"][-1]), sorted(known), 1, 0.8)
            problem = "it has no meaning here" + "".join(f" (meant: {one}?)" for one in near)
        line = _line_of(first["loc"], text)
        raise PlanUnusable(path, f"{where} in line {line}: {problem}") from error
    names = [(each.entrypoint, each.name) for each in plan.deployments]
    if twice := [name for name in names if names.count(name) > 1]:
        raise PlanUnusable(path, f"{' '.join(twice[0])} is there twice")
    return plan
