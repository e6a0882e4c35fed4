"""`headrace config show`, and commands in a folder with a settings file."""

from __future__ import annotations

import json
from pathlib import Path

from tests.support.surroundings import Case, run_cases

SECRET = "correct-horse-battery"


def test_a_file_of_the_folder(tmp_path: Path) -> None:
    project, broken = tmp_path / "project", tmp_path / "broken"
    for folder in (project, broken):
        folder.mkdir()
    (project / "headrace.toml").write_text(
        f'log_format = "json"\napi_keys = "{SECRET}"\ncoinbase_url = "http://u:{SECRET}@x.test"\n'
    )
    (broken / "headrace.toml").write_text('lak = "x"')
    (project / "headrace.toml").chmod(0o644)
    alone = {"XDG_CONFIG_HOME": str(tmp_path / "none")}
    shown, table, said, unknown, doctor = run_cases(
        [
            Case(["config", "show", "--json"], folder=str(project), set=alone),
            Case(["config", "show"], folder=str(project), set=alone),
            Case(["lease", "release", "none", "--yes"], folder=str(project), set=alone),
            Case(["status"], folder=str(broken), set=alone),
            Case(["doctor", "--limit-s", "5"], folder=str(project), set=alone),
        ],
        tmp_path / "home",
    )
    answer = json.loads(shown.out)
    rows = {row["name"]: row for row in answer["settings"]}
    assert [file["read"] for file in answer["files"]] == [True, False]
    assert (rows["log_format"]["value"], rows["log_format"]["place"]) == (
        "json",
        f"{project}/headrace.toml:1",
    )
    assert (rows["home"]["source"], rows["rate"]["source"]) == ("environment", "default")
    assert "headrace.toml:2" in table.out
    assert SECRET not in shown.out + table.out
    assert json.loads(said.err)["event"] == "failed"
    assert (unknown.code, unknown.err.count("\n")) == (2, 1)
    assert f"{broken}/headrace.toml has what is no setting: 'lak' in line 1" in unknown.err
    assert "headrace.toml holds secrets, and others may read it" in doctor.out
