"""compose.yaml with its settings filled in, as far as it means something to processes.

Images, volumes, published ports and restarts are Docker's; the rest is read here: what a service
runs, with which environment, where, after which others, and how it is looked at.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any, Literal

import yaml
from dotenv import dotenv_values
from pydantic import BaseModel, BeforeValidator, Field, ValidationError

from headrace.errors import ConfigurationError

COMPOSE = Path(__file__).with_name("compose.yaml")
SETTINGS = Path(__file__).with_name(".env")
EXAMPLE = Path(__file__).with_name("env.example")

#: `${NAME}`, `${NAME:-default}` or `${NAME:?why}` without another one inside.
_VARIABLE = re.compile(r"\$\{(\w+)(?::([-?])([^${}]*))?\}")
#: A password of these stands in a URL as it is.
_PLAIN = re.compile(r"[A-Za-z0-9]+")


class SettingsUnusable(ConfigurationError):
    """The settings file is not there, or lacks something."""

    def __init__(self, path: Path, problem: str) -> None:
        super().__init__(
            f"the settings {path} cannot be used: {problem}",
            hint=f"Copy {EXAMPLE} there, and fill in its passwords",
        )
        self.path = path


def _texts(values: Any) -> Any:
    """An environment as text, since YAML reads some values as numbers."""
    return {name: str(value) for name, value in values.items()} if values else values


class Depends(BaseModel):
    """What another service must have come to before this one starts."""

    condition: Literal["service_started", "service_healthy", "service_completed_successfully"]


class Healthcheck(BaseModel):
    """A command that succeeds once the service can be used."""

    test: tuple[str, ...] = ()
    disable: bool = False

    @property
    def command(self) -> tuple[str, ...]:
        """The program and its arguments; none where nothing is looked at."""
        return self.test[1:] if self.test[:1] == ("CMD",) and not self.disable else ()


class Service(BaseModel):
    """One service as a process."""

    image: str
    command: tuple[str, ...] = ()
    environment: Annotated[dict[str, str], BeforeValidator(_texts)] = Field(default_factory=dict)
    working_dir: str = ""
    depends_on: dict[str, Depends] = Field(default_factory=dict)
    healthcheck: Healthcheck = Healthcheck()

    @property
    def program(self) -> str:
        """What the image is of, without registry and version: `postgres`."""
        return self.image.rpartition("/")[2].partition(":")[0]


def variable_of(service: str, what: str) -> str:
    """The variable that says something of a service: WORKER_1_FOLDER."""
    return f"{service.upper().replace('-', '_')}_{what}"


def service_names(compose: Path = COMPOSE) -> list[str]:
    """All services, in the order of the file."""
    return list(_read(compose)["services"])


def read_settings(path: Path) -> dict[str, str]:
    """What a settings file says; what is empty there is not said.

    Raises:
        SettingsUnusable: there is none, or a password has characters that a URL would not take.
    """
    if not path.is_file():
        raise SettingsUnusable(path, "there is no such file")
    try:
        found = {
            name: text for name, text in dotenv_values(path, interpolate=False).items() if text
        }
    except (OSError, UnicodeDecodeError) as error:
        raise SettingsUnusable(path, str(error)) from error
    for name, text in found.items():
        if name.endswith("_PASSWORD") and not _PLAIN.fullmatch(text):
            raise SettingsUnusable(path, f"{name} may hold letters and digits only")
    return found


def read_topology(settings: Mapping[str, str], compose: Path = COMPOSE) -> dict[str, Service]:
    """The services by name, each after those that it depends on.

    Args:
        settings: what stands in the place of `${NAME}`.

    Raises:
        ConfigurationError: a setting without a default is missing, or a service is not understood.
    """
    content = _filled_in(_read(compose)["services"], settings)
    try:
        services = {name: Service.model_validate(each) for name, each in content.items()}
    except ValidationError as error:
        first = error.errors()[0]
        where = ".".join(map(str, first["loc"]))
        raise ConfigurationError(f"{compose}: {where}: {first['msg']}") from error
    ordered: dict[str, Service] = {}
    while len(ordered) < len(services):
        ready = [
            name
            for name, each in services.items()
            if name not in ordered and each.depends_on.keys() <= ordered.keys()
        ]
        if not ready:
            raise ConfigurationError(
                f"{compose}: services depend on each other, or on none there is"
            )
        ordered |= {name: services[name] for name in ready}
    return ordered


def _read(compose: Path) -> dict[str, Any]:
    content: dict[str, Any] = yaml.safe_load(compose.read_text(encoding="utf-8"))
    return content


def _filled_in(value: Any, settings: Mapping[str, str]) -> Any:
    if isinstance(value, str):
        return _text(value, settings)
    if isinstance(value, dict):
        return {name: _filled_in(each, settings) for name, each in value.items()}
    return [_filled_in(each, settings) for each in value] if isinstance(value, list) else value


def _text(text: str, settings: Mapping[str, str]) -> str:
    """The text with its variables replaced, the inner ones of a default first."""

    def value_of(found: re.Match[str]) -> str:
        name, kind, rest = found.groups()
        if settings.get(name):
            return settings[name]
        if kind == "?":
            raise ConfigurationError(
                f"{name} is not set", hint=f"Set it in the settings file, as {EXAMPLE} shows"
            )
        return rest or ""

    while (replaced := _VARIABLE.sub(value_of, text)) != text:
        text = replaced
    return text
