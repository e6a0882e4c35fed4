"""Which Prefect API the user has chosen, found without importing Prefect (1.1 s).

The order is Prefect's own (`PrefectBaseSettings.settings_customise_sources`), and so are the names:
the environment, `.env`, `prefect.toml`, `[tool.prefect]` of `pyproject.toml` in the working
folder, and last the active profile in `$PREFECT_PROFILES_PATH`, else
`$PREFECT_HOME/profiles.toml`, else `~/.prefect/profiles.toml`. The profile is the one that
`PREFECT_PROFILE` names, else the file's `active`. An empty value counts as none.
"""

from __future__ import annotations

import os
import tomllib
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from dotenv import dotenv_values

from headrace.errors import ConfigurationError

_VARIABLE = "PREFECT_API_URL"


@dataclass(frozen=True)
class ConfiguredApi:
    """An API that is not ours to start, stop or set up.

    Attributes:
        api_url: as configured.
        source: where that was said, for people.
    """

    api_url: str
    source: str

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
        ConfigurationError: a file that may hold the choice is not valid TOML.
    """
    folder = folder or Path.cwd()
    dotenv = {name: value or "" for name, value in dotenv_values(folder / ".env").items()}
    project = _toml(folder / "prefect.toml")
    pyproject = _toml(folder / "pyproject.toml").get("tool", {}).get("prefect", {})
    profile_path, profile = _profile(environ, dotenv)
    candidates = (
        (environ.get(_VARIABLE), f"the environment variable {_VARIABLE}"),
        (dotenv.get(_VARIABLE), str(folder / ".env")),
        (project.get("api", {}).get("url"), str(folder / "prefect.toml")),
        (pyproject.get("api", {}).get("url"), str(folder / "pyproject.toml")),
        (profile.get(_VARIABLE), f"the active profile in {profile_path}"),
    )
    return next((ConfiguredApi(str(url), source) for url, source in candidates if url), None)


def _profile(
    environ: Mapping[str, str], dotenv: Mapping[str, str]
) -> tuple[Path, Mapping[str, Any]]:
    home = Path(environ.get("PREFECT_HOME") or "~/.prefect")
    named = environ.get("PREFECT_PROFILES_PATH") or dotenv.get("PREFECT_PROFILES_PATH")
    path = Path(named or home / "profiles.toml").expanduser()
    content = _toml(path)
    active = environ.get("PREFECT_PROFILE") or content.get("active")
    return path, content.get("profiles", {}).get(active, {})


def _toml(path: Path) -> dict[str, Any]:
    try:
        return tomllib.loads(path.read_text(encoding="utf-8"))
    except FileNotFoundError:
        return {}
    except tomllib.TOMLDecodeError as error:
        raise ConfigurationError(
            f"{path} is not valid TOML ({error})",
            hint="It may name the Prefect API to use; repair it or move it away",
        ) from error
