"""Which Prefect API the user has chosen, and its login, without importing Prefect (1.1 s).

The order is Prefect's own (`PrefectBaseSettings.settings_customise_sources`), and so are the names:
the environment, `.env`, `prefect.toml`, `[tool.prefect]` of `pyproject.toml` in the working
folder, and last the active profile in `$PREFECT_PROFILES_PATH`, else
`$PREFECT_HOME/profiles.toml`, else `~/.prefect/profiles.toml`. The profile is the one that
`PREFECT_PROFILE` names, else the file's `active`. An empty value counts as none.

`present_api` is the API that a command would use, found without making or starting anything.
"""

from __future__ import annotations

import base64
import io
import json
import os
import tomllib
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import msgspec
import psutil
from dotenv import dotenv_values

from headrace.cli.server.address import api_url
from headrace.cli.server.state import SERVER, ProcessRecord
from headrace.errors import ConfigurationError
from headrace.paths import working_folder


@dataclass(frozen=True)
class ConfiguredApi:
    """An API that is not ours to start, stop or set up.

    Attributes:
        api_url: as configured.
        source: where that was said, for people.
        headers: what a request needs: the login, and headers of the user's own.
    """

    api_url: str
    source: str
    headers: Mapping[str, str] = field(default_factory=dict, repr=False)

    @property
    def ui_url(self) -> str:
        """Where a browser probably finds it (Prefect derives it in the same way)."""
        url = self.api_url.rstrip("/")
        if "/accounts/" in url:
            url = url.replace("https://api.", "https://app.").replace("/api/accounts/", "/account/")
            return url.replace("/workspaces/", "/workspace/")
        return url.removesuffix("/api")


def configured_api(
    environ: Mapping[str, str] = os.environ, folder: Path | None = None
) -> ConfiguredApi | None:
    """Return the API the user has chosen; None if the choice is left to us.

    Args:
        environ: the environment variables.
        folder: the working folder.

    Raises:
        ConfigurationError: a file that may hold the choice cannot be read or is not valid TOML,
            or headers that it gives are no JSON.
    """
    found = _Settings(environ, folder or working_folder())
    url, source = found.find("PREFECT_API_URL", "api", "url")
    return ConfiguredApi(str(url), source, _headers(found)) if url else None


class _Settings:
    """Where Prefect looks for its settings, in its order."""

    def __init__(self, environ: Mapping[str, str], folder: Path) -> None:
        dotenv = _dotenv(folder / ".env")
        profile_path, profile = _profile(environ, dotenv)
        self._named: tuple[tuple[Mapping[str, Any], str], ...] = (
            (environ, "the environment variable {name}"),
            (dotenv, str(folder / ".env")),
        )
        self._nested = (
            (_toml(folder / "prefect.toml"), str(folder / "prefect.toml")),
            (
                _toml(folder / "pyproject.toml").get("tool", {}).get("prefect", {}),
                str(folder / "pyproject.toml"),
            ),
        )
        self._profile = (profile, f"the active profile in {profile_path}")

    def find(self, name: str, group: str, key: str) -> tuple[Any, str]:
        """The value of a setting, and where it was said; None and "" if nowhere."""
        values, source = self._profile
        candidates = (
            *((each.get(name), where.format(name=name)) for each, where in self._named),
            *((each.get(group, {}).get(key), where) for each, where in self._nested),
            (values.get(name), source),
        )
        return next(((value, where) for value, where in candidates if value), (None, ""))


def _headers(settings: _Settings) -> dict[str, str]:
    """As Prefect's client sends them: the auth string goes before the key."""
    own, where = settings.find("PREFECT_CLIENT_CUSTOM_HEADERS", "client", "custom_headers")
    if isinstance(own, str):
        try:
            own = json.loads(own)
        except json.JSONDecodeError as error:
            raise ConfigurationError(
                f"PREFECT_CLIENT_CUSTOM_HEADERS (from {where}) is no JSON ({error})",
                hint='Write it as {"NAME": "VALUE"}',
            ) from error
    headers = {str(name): str(value) for name, value in (own or {}).items()}
    if pair := settings.find("PREFECT_API_AUTH_STRING", "api", "auth_string")[0]:
        headers["Authorization"] = f"Basic {base64.b64encode(str(pair).encode()).decode()}"
    elif key := settings.find("PREFECT_API_KEY", "api", "key")[0]:
        headers["Authorization"] = f"Bearer {key}"
    return headers


def _profile(
    environ: Mapping[str, str], dotenv: Mapping[str, str]
) -> tuple[Path, Mapping[str, Any]]:
    home = Path(environ.get("PREFECT_HOME") or "~/.prefect")
    named = environ.get("PREFECT_PROFILES_PATH") or dotenv.get("PREFECT_PROFILES_PATH")
    try:
        path = Path(named or home / "profiles.toml").expanduser()
    except RuntimeError:  # no home folder, so no profile in it
        return home, {}
    content = _toml(path)
    active = environ.get("PREFECT_PROFILE") or content.get("active")
    return path, content.get("profiles", {}).get(active, {})


def _toml(path: Path) -> dict[str, Any]:
    text = _text(path)
    try:
        return tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        raise ConfigurationError(
            f"{path} is not valid TOML ({error})",
            hint="It may name the Prefect API to use; repair it or move it away",
        ) from error


def _dotenv(path: Path) -> dict[str, str]:
    found = dotenv_values(stream=io.StringIO(_text(path)))
    return {name: value or "" for name, value in found.items()}


def _text(path: Path) -> str:
    """What a settings file says; "" if there is none."""
    try:
        return path.read_text(encoding="utf-8")
    except (FileNotFoundError, NotADirectoryError):
        return ""
    except (OSError, UnicodeDecodeError) as error:
        reason = error.strerror if isinstance(error, OSError) else "it is no UTF-8"
        raise ConfigurationError(
            f"{path} cannot be read ({reason})",
            hint="It may name the Prefect API to use; repair it or move it away",
        ) from error


def present_api(home: Path) -> ConfiguredApi | None:
    """The configured API, else that of the managed server if its process lives.

    Args:
        home: the state folder of the managed server.

    Raises:
        ConfigurationError: a settings file of Prefect's cannot be read.
    """
    configured = configured_api()
    if configured is not None:
        return configured
    port = managed_port(home)
    return None if port is None else ConfiguredApi(api_url(port), "headrace up")


def managed_port(home: Path) -> int | None:
    """The port of the managed server, if its process lives."""
    # Not through StateFolder, which makes the folder and sets its mode.
    path = home / "processes" / f"{SERVER}.json"
    try:
        record = msgspec.json.decode(path.read_bytes(), type=ProcessRecord)
    except (OSError, msgspec.DecodeError):
        return None
    return record.port if psutil.pid_exists(record.pid) else None
