"""Where quotas and breakers are kept: a folder of this machine, or a server that machines share."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from urllib.parse import urlsplit

from pydantic import SecretStr

from headrace.errors import ConfigurationError

SETTING = "HEADRACE_QUOTA"
_REDIS, _POSTGRES = ("redis", "rediss"), ("postgres", "postgresql")


@dataclass(frozen=True, slots=True)
class QuotaServer:
    """A Redis or a PostgreSQL server that holds quotas and breakers of many machines.

    Args:
        url: `redis://`, `rediss://` (TLS) or `postgres://`, with user and password.
        setting: what the URL was given by, for messages.
    """

    url: SecretStr
    setting: str = SETTING

    @property
    def on_redis(self) -> bool:
        """Whether it is a Redis; else it is a PostgreSQL."""
        return self.url.get_secret_value().partition("://")[0] in _REDIS

    def __str__(self) -> str:
        """The URL without what may be secret in it."""
        parts = urlsplit(self.url.get_secret_value())
        return f"{parts.scheme}://{parts.netloc.rpartition('@')[2]}{parts.path}"


Place = Path | QuotaServer


def read_server(url: SecretStr, setting: str = SETTING) -> QuotaServer:
    """The server that a setting names.

    Raises:
        ConfigurationError: it does not read; the text of the URL is not shown.
    """
    text = url.get_secret_value()
    hint = "Write redis://HOST:6379/0, rediss://... for TLS, or postgres://USER@HOST/DATABASE"
    try:
        parts = urlsplit(text)
        known = parts.scheme in (*_REDIS, *_POSTGRES) and bool(parts.netloc.rpartition("@")[2])
        # What is not escaped in a password ends it early, and would show up as a host or a path.
        known = known and "@" not in parts.path
        if parts.scheme in _REDIS:
            known = known and parts.port != 0  # reading it fails where it is no number
    except ValueError:
        known = False
    if not known:
        raise ConfigurationError(f"{setting} is no URL of a Redis or a PostgreSQL", hint=hint)
    return QuotaServer(url, setting)
