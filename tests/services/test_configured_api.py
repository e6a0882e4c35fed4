"""What we take for the user's own Prefect API is what Prefect itself would use."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from base64 import b64decode
from pathlib import Path

import pytest

from headrace.cli.server import configured_api

pytestmark = pytest.mark.services

PROFILES = """
active = "team"
[profiles.team]
PREFECT_API_URL = "http://team/api"
[profiles.other]
PREFECT_API_URL = "http://other/api"
"""

#: Each step adds a source that hides the ones before.
STEPS = [
    {},
    {"home/profiles.toml": PROFILES},
    {"PREFECT_PROFILE": "other"},
    {"project/pyproject.toml": '[tool.prefect.api]\nurl = "http://pyproject/api"\n'},
    {"project/prefect.toml": '[api]\nurl = "http://prefect-toml/api"\n'},
    {"project/.env": "PREFECT_API_URL=http://dotenv/api\n"},
    {"PREFECT_API_URL": "http://environment/api"},
    {"PREFECT_API_AUTH_STRING": "user:environment"},
]

ASK_PREFECT = """
import json, os, sys
from pathlib import Path
from prefect.settings import Settings
answers = []
for step in json.load(sys.stdin):
    for name, value in step.items():
        if "/" in name:
            (Path("..") / name).write_text(value)
        else:
            os.environ[name] = value
    api = Settings().api
    answers.append([api.url, api.auth_string and api.auth_string.get_secret_value()])
print(json.dumps(answers))
"""


@pytest.mark.slow
def test_every_source_counts_as_it_does_for_prefect(tmp_path: Path) -> None:
    for folder in ("home", "project", "ours/home", "ours/project"):
        (tmp_path / folder).mkdir(parents=True)
    clean = {name: value for name, value in os.environ.items() if not name.startswith("PREFECT_")}
    asked = subprocess.run(
        [sys.executable, "-c", ASK_PREFECT],
        input=json.dumps(STEPS),
        cwd=tmp_path / "project",
        env={**clean, "PREFECT_HOME": str(tmp_path / "home"), "DO_NOT_TRACK": "1"},
        capture_output=True,
        text=True,
        check=True,
    )
    environ = {"PREFECT_HOME": str(tmp_path / "ours" / "home")}
    ours = []
    for step in STEPS:
        for name, value in step.items():
            if "/" in name:
                (tmp_path / "ours" / name).write_text(value)
            else:
                environ[name] = value
        api = configured_api(environ, tmp_path / "ours" / "project")
        login = api.headers.get("Authorization", "") if api else ""
        pair = b64decode(login.removeprefix("Basic ")).decode()
        ours.append([api.api_url if api else None, pair or None])
    assert ours == json.loads(asked.stdout.splitlines()[-1])
    assert len(set(map(tuple, ours))) == len(STEPS)
