"""Where quotas live: the variable, the block that it names, and a block with a place of its own."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from pydantic import SecretStr

from blocks import Quota
from blocks.resolve import quota_place
from headrace.errors import ConfigurationError
from headrace.quota.location import QuotaServer
from headrace.settings import load_settings

REDIS = "redis://:hush-hush@10.0.0.1:6379/0"


def place(value: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Any:
    monkeypatch.setenv("HEADRACE_HOME", str(tmp_path))
    monkeypatch.setenv("HEADRACE_QUOTA", value)
    return quota_place(load_settings())


def test_nothing_said_is_a_folder_of_the_machine(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert place("", tmp_path, monkeypatch) == tmp_path / "quota"


def test_a_url_and_a_block_name_a_server_and_show_no_password(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    saved = {"shared": Quota(location=SecretStr(REDIS)), "rates": Quota(rates="15/s")}
    monkeypatch.setattr("blocks.resolve.loaded", lambda _kind, name: saved[name])
    for value in (REDIS, "block:shared"):
        server = place(value, tmp_path, monkeypatch)
        assert isinstance(server, QuotaServer)
        assert server.url.get_secret_value() == REDIS
        assert str(server) == "redis://10.0.0.1:6379/0"
        assert "hush" not in repr(server) + repr(saved) + repr(load_settings())
    with pytest.raises(ConfigurationError, match="'rates' of HEADRACE_QUOTA has no location"):
        place("block:rates", tmp_path, monkeypatch)


@pytest.mark.parametrize(
    "url", ["ftp://h/x", "redis://", "redis://:hu/sh@h", "redis://u:hu@sh@h:x", "postgres://h/a@b"]
)
def test_what_is_no_server_is_refused_without_its_text(
    url: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with pytest.raises(ConfigurationError, match="HEADRACE_QUOTA") as caught:
        place(url, tmp_path, monkeypatch)
    assert "hu" not in caught.value.message.replace("HEADRACE_QUOTA", "")


def test_a_block_with_a_place_of_its_own_uses_it(tmp_path: Path) -> None:
    gone = Quota(location=SecretStr("redis://:hush-hush@127.0.0.1:1/0"))
    with pytest.raises(Exception, match=r"redis://127\.0\.0\.1:1/0.*`location` of the Quota"):
        gone.gate(tmp_path, "api")
