"""Addresses of PostgreSQL: read as libpq does, shown without the password."""

from __future__ import annotations

import pytest

from headrace.postgres import PostgresAddress, PostgresRefused


@pytest.mark.parametrize(
    ("url", "shown"),
    [
        ("postgres://me:s3cret@db:5433/jobs?sslmode=require", "postgres://me@db:5433/jobs"),
        ("postgresql://me:s3cret@a,b:5433/jobs", "postgres://me@a,b:5433/jobs"),
        ("postgres://db/jobs?password=s3cret&user=me", "postgres://db/jobs"),
        ("postgres://me:s3cret%40%2F@[::1]/jobs", "postgres://me@[::1]/jobs"),
    ],
)
def test_the_text_of_an_address_holds_no_password(url: str, shown: str) -> None:
    address = PostgresAddress(url, setting="HEADRACE_QUOTA")
    assert str(address) == shown
    assert "s3cret" in str(address.parameters["password"])
    assert "s3cret" not in address.redacted(f"FATAL: {address.parameters['password']} is wrong")


@pytest.mark.parametrize(
    "url", ["postgres://me:s3/cret@db/jobs", "mysql://me:s3cret@db/jobs", "postgres://[::1/s3cret"]
)
def test_what_does_not_read_is_refused_without_its_text(url: str) -> None:
    with pytest.raises(PostgresRefused, match="HEADRACE_QUOTA") as caught:
        PostgresAddress(url, setting="HEADRACE_QUOTA")
    assert "s3" not in str(caught.value)
    assert caught.value.__context__ is None or caught.value.__suppress_context__
