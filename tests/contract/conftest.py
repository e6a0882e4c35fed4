"""The backends over which the contract suites run."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from uuid import uuid4

import pytest
from pydantic import SecretStr

from headrace.lake import Store
from headrace.lake.local import LocalStore
from headrace.lake.s3 import S3Store
from headrace.quota.location import Place, read_server
from headrace.quota.shared.redis import RedisKeeper
from tests.services_fixtures import BUCKET, moto_url, seaweed_url, settings_for
from tests.support.postgres import postgres, postgres_url
from tests.support.redis import redis_server, redis_url

__all__ = ["moto_url", "postgres", "postgres_url", "redis_server", "redis_url", "seaweed_url"]


@pytest.fixture(
    params=[
        "local",
        pytest.param("seaweed", marks=pytest.mark.services),
        pytest.param("moto", marks=pytest.mark.services),
    ]
)
def store(request: pytest.FixtureRequest, tmp_path: Path) -> Store:
    """An empty store of each kind."""
    makers: dict[str, Callable[[], Store]] = {
        "local": lambda: LocalStore(tmp_path / "lake"),
        "seaweed": lambda: _s3(request.getfixturevalue("seaweed_url")),
        "moto": lambda: _s3(request.getfixturevalue("moto_url")),
    }
    return makers[request.param]()


@pytest.fixture(
    params=[
        "folder",
        pytest.param("redis", marks=pytest.mark.services),
        pytest.param("postgres", marks=pytest.mark.services),
    ]
)
def place(request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Place:
    """Where quotas and breakers are kept, of each kind; empty."""
    if request.param == "folder":
        return tmp_path / "state"
    if request.param == "redis":
        # It was started a moment ago, so that what it kept before would be waited for.
        begin = RedisKeeper.begin
        monkeypatch.setattr(RedisKeeper, "begin", lambda *given: begin(*given[:-1], 0))
    return read_server(SecretStr(request.getfixturevalue(f"{request.param}_url")))


def _s3(url: str) -> S3Store:
    return S3Store(BUCKET, f"contract/{uuid4().hex}", settings_for(url))
