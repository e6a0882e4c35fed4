"""From a setting's text to a store."""

from __future__ import annotations

from pathlib import Path

import pytest

import headrace.leases
from headrace.errors import ConfigurationError
from headrace.leases import DynamoLeases, S3Leases, SqliteLeases, open_leases


def test_a_folder(tmp_path: Path) -> None:
    for location in (tmp_path / "leases", str(tmp_path / "leases")):
        store = open_leases(location)
        assert isinstance(store, SqliteLeases)
        assert store.path == tmp_path / "leases" / "leases.sqlite"


def test_a_table() -> None:
    store = open_leases("dynamodb://leases?region=eu-west-1&endpoint_url=http://127.0.0.1:1")
    assert isinstance(store, DynamoLeases)
    assert store.where == "table leases"


def test_a_bucket() -> None:
    store = open_leases("s3://lake/some/prefix?region=eu-west-1&endpoint_url=http://127.0.0.1:1")
    assert isinstance(store, S3Leases)
    assert store.where == "s3://lake/some/prefix/_leases"
    assert open_leases("s3://lake").where == "s3://lake/_leases"


def test_a_database() -> None:
    store = open_leases("postgresql://user:secret-word@127.0.0.1:1/prefect")
    assert store.where == "postgres://user@127.0.0.1:1/prefect"


def test_a_password_is_not_repeated() -> None:
    with pytest.raises(ConfigurationError, match="is no place for leases") as caught:
        open_leases("postgre://user:secret-word@host/db?password=secret-word")
    assert "secret-word" not in str(caught.value)


@pytest.mark.parametrize(
    "location",
    [
        "redis://leases",
        "dynamodb://",
        "dynamodb:///leases",
        "dynamodb://leases/path",
        "dynamodb://leases?zone=a",
        "s3://",
        "s3://lake/../other",
        "s3://lake/prefix?create=true",
        "s3://lake/prefix#part",
    ],
)
def test_anything_else_is_refused(location: str) -> None:
    with pytest.raises(ConfigurationError, match="is no place for leases"):
        open_leases(location)


def test_the_package_has_no_other_late_names() -> None:
    with pytest.raises(AttributeError, match="Nonsense"):
        _ = headrace.leases.Nonsense
