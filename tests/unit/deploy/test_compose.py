"""deploy/compose.yaml: valid, filled in from one settings file, with settings that there are."""

from __future__ import annotations

from pathlib import Path

import pytest

from deploy import check
from deploy.local import Local, main
from deploy.topology import EXAMPLE, SettingsUnusable, read_settings, read_topology
from headrace.errors import ConfigurationError
from headrace.settings.model import Settings, variable_of

ROOT = Path(__file__).parents[3]
FULL = {"POSTGRES_PASSWORD": "pg1", "REDIS_PASSWORD": "redis1", "S3_SECRET_KEY": "s3"}


def test_the_file_is_what_compose_takes(capsys: pytest.CaptureFixture[str]) -> None:
    assert check.main() == 0
    assert "9 services" in capsys.readouterr().out


def test_services_come_after_what_they_need() -> None:
    services = read_topology(FULL)
    seen: set[str] = set()
    for name, service in services.items():
        assert service.depends_on.keys() <= seen
        seen.add(name)
    assert seen == services.keys() >= {"postgres", "redis", "seaweedfs", "worker-1", "worker-2"}


def test_addresses_folders_and_settings_stand_in_their_places(tmp_path: Path) -> None:
    local = Local(tmp_path, "127.9.9")
    given = {**FULL, **local._places(), "RATE": "10/s"}
    worker = read_topology(given)["worker-2"].environment
    assert worker["HEADRACE_QUOTA"] == f"redis://:redis1@{local.addresses['redis']}:6379/0"
    assert worker["HEADRACE_LEASES"].startswith(
        f"postgres://headrace:pg1@{local.addresses['postgres']}:"
    )
    assert worker["HEADRACE_COINBASE_URL"] == f"http://{local.addresses['exchange']}:8080"
    assert worker["HEADRACE_HOME"] == str(local.folder_of("worker-2"))
    assert worker["HEADRACE_RATE"] == "10/s"
    assert len(set(local.addresses.values())) == len(local.addresses)
    elsewhere = read_topology({**given, "EXCHANGE_URL": "https://x"})["worker-1"].environment
    assert elsewhere["HEADRACE_COINBASE_URL"] == "https://x"


def test_each_setting_of_ours_is_one_that_there_is() -> None:
    known = {variable_of(name) for name in Settings.model_fields}
    for service in read_topology(FULL).values():
        ours = {name for name in service.environment if name.startswith("HEADRACE_")}
        assert ours <= known


def test_the_example_holds_no_password_and_names_each_that_is_needed(tmp_path: Path) -> None:
    example = read_settings(EXAMPLE)
    assert not example.keys() & FULL.keys()
    for missing in FULL:
        given = {**example, **FULL, missing: ""}
        with pytest.raises(ConfigurationError, match=missing):
            read_topology(given)
    (tmp_path / "env").write_text("POSTGRES_PASSWORD=p@ss\n")
    with pytest.raises(SettingsUnusable, match="letters and digits"):
        read_settings(tmp_path / "env")


def test_wrong_input_ends_with_2_and_starts_nothing(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    state = ("--state", str(tmp_path / "state"))
    assert main(["up", *state, "--settings", str(tmp_path / "none")]) == 2
    (tmp_path / "env").write_text("".join(f"{name}={text}\n" for name, text in FULL.items()))
    assert main(["up", *state, "--settings", str(tmp_path / "env"), "--network", "198.51.100"]) == 2
    assert "198.51.100.2 is no address of this machine" in capsys.readouterr().err
    assert main(["down", *state]) == 0
    assert "nothing was up" in capsys.readouterr().out


def test_the_image_is_made_of_pinned_requirements_and_of_all_that_the_wheel_needs() -> None:
    dockerfile = (ROOT / "deploy/Dockerfile").read_text()
    assert "--require-hashes -r requirements/run.txt" in dockerfile
    assert "\nUSER 10001" in dockerfile
    assert "\nHEALTHCHECK " in dockerfile
    sent = {
        line[1:] for line in (ROOT / ".dockerignore").read_text().splitlines() if line[:1] == "!"
    }
    copied = [line.split()[1:-1] for line in dockerfile.splitlines() if line.startswith("COPY ")]
    wanted = {name for names in copied for name in names if not name.startswith("--")}
    assert wanted - {"/opt/headrace"} == sent
    assert all((ROOT / name).exists() for name in sent)
