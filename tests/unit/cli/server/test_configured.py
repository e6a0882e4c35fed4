"""Which Prefect API counts as the user's own choice."""

from __future__ import annotations

from pathlib import Path

import pytest

from headrace.cli.server import configured_api
from headrace.errors import ConfigurationError

PROFILES = """
active = "team"
[profiles.team]
PREFECT_API_URL = "http://team:4200/api"
[profiles.other]
PREFECT_API_URL = "http://other:4200/api"
[profiles.bare]
"""


@pytest.fixture
def prefect_home(tmp_path: Path) -> Path:
    home = tmp_path / "prefect-home"
    home.mkdir()
    return home


@pytest.fixture
def project(tmp_path: Path) -> Path:
    folder = tmp_path / "project"
    folder.mkdir()
    return folder


def chosen(project: Path, prefect_home: Path, **environ: str) -> str | None:
    api = configured_api({"PREFECT_HOME": str(prefect_home), **environ}, project)
    return None if api is None else api.api_url


def test_nothing_is_configured(project: Path, prefect_home: Path) -> None:
    assert chosen(project, prefect_home) is None


def test_an_empty_variable_counts_as_none(project: Path, prefect_home: Path) -> None:
    assert chosen(project, prefect_home, PREFECT_API_URL="") is None


def test_the_sources_hide_each_other_in_prefects_own_order(
    project: Path, prefect_home: Path
) -> None:
    (prefect_home / "profiles.toml").write_text(PROFILES)
    assert chosen(project, prefect_home) == "http://team:4200/api"
    (project / "pyproject.toml").write_text('[tool.prefect.api]\nurl = "http://pyproject/api"\n')
    assert chosen(project, prefect_home) == "http://pyproject/api"
    (project / "prefect.toml").write_text('[api]\nurl = "http://prefect-toml/api"\n')
    assert chosen(project, prefect_home) == "http://prefect-toml/api"
    (project / ".env").write_text("PREFECT_API_URL=http://dotenv/api\n")
    assert chosen(project, prefect_home) == "http://dotenv/api"
    assert chosen(project, prefect_home, PREFECT_API_URL="http://env/api") == "http://env/api"


def test_the_variable_chooses_the_profile(project: Path, prefect_home: Path) -> None:
    (prefect_home / "profiles.toml").write_text(PROFILES)
    assert chosen(project, prefect_home, PREFECT_PROFILE="other") == "http://other:4200/api"
    assert chosen(project, prefect_home, PREFECT_PROFILE="bare") is None
    assert chosen(project, prefect_home, PREFECT_PROFILE="unknown") is None


def test_the_profiles_may_lie_elsewhere(project: Path, prefect_home: Path, tmp_path: Path) -> None:
    elsewhere = tmp_path / "elsewhere.toml"
    elsewhere.write_text(PROFILES)
    found = chosen(project, prefect_home, PREFECT_PROFILES_PATH=str(elsewhere))
    assert found == "http://team:4200/api"


def test_the_source_is_named(project: Path, prefect_home: Path) -> None:
    (prefect_home / "profiles.toml").write_text(PROFILES)
    api = configured_api({"PREFECT_HOME": str(prefect_home)}, project)
    assert api is not None
    assert str(prefect_home / "profiles.toml") in api.source


def test_a_damaged_file_is_named_and_not_passed_over(project: Path, prefect_home: Path) -> None:
    (project / "prefect.toml").write_text("[api\n")
    with pytest.raises(ConfigurationError, match=r"prefect\.toml is not valid TOML"):
        chosen(project, prefect_home)


@pytest.mark.parametrize(
    ("api_url", "ui_url"),
    [
        ("http://127.0.0.1:4200/api", "http://127.0.0.1:4200"),
        ("http://prefect.example/api/", "http://prefect.example"),
        (
            "https://api.prefect.cloud/api/accounts/1/workspaces/2",
            "https://app.prefect.cloud/account/1/workspace/2",
        ),
    ],
)
def test_the_pages_are_where_prefect_thinks_they_are(
    project: Path, prefect_home: Path, api_url: str, ui_url: str
) -> None:
    environ = {"PREFECT_HOME": str(prefect_home), "PREFECT_API_URL": api_url}
    api = configured_api(environ, project)
    assert api is not None
    assert api.ui_url == ui_url


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("home/profiles.toml", 'active = "team"\n[profiles.team]\nPREFECT_API_URL = "http://x/api"\n'
         'PREFECT_API_AUTH_STRING = "admin:pass"\n'),
        ("project/pyproject.toml", '[tool.prefect.api]\nurl = "http://x/api"\n'
         'auth_string = "admin:pass"\n'),
        ("project/prefect.toml", '[api]\nurl = "http://x/api"\nauth_string = "admin:pass"\n'),
        ("project/.env", "PREFECT_API_URL=http://x/api\nPREFECT_API_AUTH_STRING=admin:pass\n"),
    ],
)  # fmt: skip
def test_the_login_comes_from_where_prefect_takes_it(
    tmp_path: Path, project: Path, prefect_home: Path, name: str, text: str
) -> None:
    folder = {"home": prefect_home, "project": project}[name.partition("/")[0]]
    (folder / name.partition("/")[2]).write_text(text)
    environ = {"PREFECT_HOME": str(prefect_home), "PREFECT_API_KEY": "pnu_1"}
    api = configured_api(environ, project)
    assert api is not None
    assert api.headers == {"Authorization": "Basic YWRtaW46cGFzcw=="}
    assert "YWRtaW" not in repr(api)


def test_a_key_and_headers_of_the_users_own_are_sent(project: Path, prefect_home: Path) -> None:
    environ = {
        "PREFECT_HOME": str(prefect_home),
        "PREFECT_API_URL": "http://x/api",
        "PREFECT_API_KEY": "pnu_1",
        "PREFECT_CLIENT_CUSTOM_HEADERS": '{"X-Team": "trades"}',
    }
    api = configured_api(environ, project)
    assert api is not None
    assert api.headers == {"Authorization": "Bearer pnu_1", "X-Team": "trades"}
    with pytest.raises(ConfigurationError, match="PREFECT_CLIENT_CUSTOM_HEADERS"):
        configured_api({**environ, "PREFECT_CLIENT_CUSTOM_HEADERS": "X-Team: trades"}, project)
