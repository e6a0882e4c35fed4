"""From a location to a lake: what is understood, what is refused and how."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from headrace.errors import ConfigurationError
from headrace.lake import S3Settings, open_lake
from headrace.lake.exceptions import LakeUnusable
from headrace.lake.local import LocalStore
from headrace.lake.opening import canonical_location, make_store
from headrace.lake.s3 import S3Store

ANYWHERE = S3Settings(endpoint_url="http://127.0.0.1:9", region="us-east-1")


def test_a_folder_is_made_with_what_is_above_it(tmp_path: Path) -> None:
    lake = open_lake(tmp_path / "deep" / "lake")

    assert lake.location == str(tmp_path / "deep" / "lake")
    assert list((tmp_path / "deep" / "lake").iterdir()) == []


def test_a_relative_folder_stays_where_it_was(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    lake = open_lake("data/lake")
    monkeypatch.chdir("/")

    lake.raw("coinbase")

    assert (tmp_path / "data/lake/_headrace/grid-coinbase.json").exists()


def test_the_home_folder_may_be_short(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))

    assert open_lake("~/lake").location == str(tmp_path / "lake")


@pytest.mark.parametrize(
    ("location", "shown"),
    [
        ("s3://bucket", "s3://bucket"),
        ("s3://bucket/", "s3://bucket"),
        ("s3://bucket/a/b/", "s3://bucket/a/b"),
        ("s3://bucket/year=2026/a", "s3://bucket/year=2026/a"),
    ],
)
def test_buckets(location: str, shown: str) -> None:
    store = make_store(location, s3=ANYWHERE)

    assert isinstance(store, S3Store)
    assert store.location == shown == canonical_location(location)
    assert store.place("raw/x") == f"{shown}/raw/x"


@pytest.mark.parametrize(
    "location",
    [
        "",
        "  ",
        "a\0b",
        "s3://",
        "s3://B",
        "s3://bucket//a",
        "s3://bucket/../a",
        "s3://bucket/ä",
        "s3://bucket/a?x=1",
        "s3://bucket/a b",
        "gs://bucket/a",
        "http://host/a",
        "file:///tmp/x",
    ],
)
def test_what_cannot_be_a_lake_is_a_configuration_error(location: str) -> None:
    with pytest.raises(LakeUnusable) as caught:
        make_store(location, s3=ANYWHERE)
    with pytest.raises(LakeUnusable):
        canonical_location(location)

    assert isinstance(caught.value, ConfigurationError)
    assert caught.value.hint


def test_an_endpoint_that_is_no_url() -> None:
    with pytest.raises(LakeUnusable, match="Invalid endpoint"):
        make_store("s3://bucket", s3=S3Settings(endpoint_url="nonsense"))


def test_a_local_lake_does_not_load_boto3(tmp_path: Path) -> None:
    program = (
        "import sys; from headrace.lake import open_lake; open_lake(sys.argv[1]).raw('x'); "
        "sys.exit('boto3' in sys.modules)"
    )
    done = subprocess.run([sys.executable, "-c", program, str(tmp_path)], check=False, timeout=60)

    assert done.returncode == 0


def test_local_store_is_what_a_path_gives(tmp_path: Path) -> None:
    assert isinstance(make_store(str(tmp_path)), LocalStore)


def test_one_folder_has_one_location_however_it_is_spelled(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "data" / "lake").mkdir(parents=True)
    (tmp_path / "link").symlink_to(tmp_path / "data")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("HOME", str(tmp_path))
    spellings = (
        "data/lake",
        "./data/lake/",
        "data/../data/lake",
        "link/lake",
        "~/data/lake",
        str(tmp_path / "data" / "lake"),
    )
    locations = {make_store(spelling).location for spelling in spellings}

    assert locations == {str((tmp_path / "data" / "lake").resolve())}
