"""Clients that not every user needs: an optional dependency each, and an error that names it."""

from __future__ import annotations

from importlib import import_module
from importlib.util import find_spec
from types import ModuleType
from typing import Literal

from headrace.errors import ConfigurationError

Extra = Literal["cql", "looker", "unified", "dask", "otel", "postgres", "redis", "evidence", "aws"]

#: What each extra of `pyproject.toml` brings, and what it is for.
_PACKAGES: dict[Extra, tuple[tuple[str, ...], str]] = {
    "cql": (("cassandra",), "a store at cql:// needs the CQL driver"),
    "looker": (("looker_sdk",), "a Looker needs its SDK"),
    "unified": (
        ("deltalake", "duckdb", "fsspec"),
        "the unified lake needs deltalake, duckdb and fsspec",
    ),
    "dask": (("prefect_dask",), "work on a Dask cluster needs prefect-dask"),
    "otel": (
        ("opentelemetry.sdk", "opentelemetry.exporter"),
        "metrics to OpenTelemetry need its exporter for OTLP over HTTP",
    ),
    "postgres": (("psycopg",), "state at postgres:// needs psycopg"),
    "redis": (("redis",), "state at redis:// needs redis-py"),
    "aws": (("prefect_aws",), "an AWS Credentials block needs prefect-aws"),
    "evidence": (
        ("cryptography", "rfc3161_client"),
        "signing and time-stamping need cryptography and rfc3161-client",
    ),
}


class ExtraMissing(ConfigurationError):
    """A client is needed that was not installed.

    Attributes:
        extra: the optional dependency that brings it.
    """

    def __init__(self, extra: Extra) -> None:
        super().__init__(
            f"{_PACKAGES[extra][1]}, which is not installed",
            hint=f"pip install 'headrace[{extra}]' (`make setup` installs all extras)",
        )
        self.extra = extra


def require(extra: Extra) -> None:
    """Look whether the client of an extra is installed, without importing it.

    Raises:
        ExtraMissing: it is not.
    """
    if any(find_spec(package) is None for package in _PACKAGES[extra][0]):
        raise ExtraMissing(extra)


def import_with(extra: Extra, module: str) -> ModuleType:
    """Import a module of ours that needs the client of an extra.

    Raises:
        ExtraMissing: the client is not installed.
    """
    try:
        return import_module(module)
    except ModuleNotFoundError as error:
        if any(f"{error.name}.".startswith(f"{package}.") for package in _PACKAGES[extra][0]):
            raise ExtraMissing(extra) from error
        raise
