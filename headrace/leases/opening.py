"""From the text in a setting to the store it means."""

from __future__ import annotations

from pathlib import Path
from urllib.parse import parse_qsl, urlsplit

from headrace.errors import ConfigurationError
from headrace.leases.sqlite import SqliteLeases
from headrace.leases.store import LeaseStore
from headrace.paths import user_path

_SCHEME = "dynamodb"
_OPTIONS = {"region", "endpoint_url", "create"}


def open_leases(location: str | Path) -> LeaseStore:
    """The store at `location`.

    Args:
        location: a folder, or `dynamodb://TABLE`, with the optional query parameters `region`,
            `endpoint_url` and `create=true`.

    Raises:
        ConfigurationError: another scheme, or an unknown parameter.
    """
    text = str(location)
    if "://" not in text:
        return SqliteLeases(user_path(text))
    parts = urlsplit(text)
    options = dict(parse_qsl(parts.query, keep_blank_values=True))
    malformed = parts.path.strip("/") or set(options) - _OPTIONS
    if parts.scheme != _SCHEME or not parts.netloc or malformed:
        raise ConfigurationError(
            f"{text!r} is no place for leases",
            hint="Give a folder, or dynamodb://TABLE?region=REGION (and endpoint_url, create=true)",
        )
    from headrace.leases.dynamodb import DynamoLeases  # only here: boto3 is slow to load

    return DynamoLeases(
        parts.netloc,
        region=options.get("region"),
        endpoint_url=options.get("endpoint_url"),
        create=options.get("create", "false").lower() in ("1", "true", "yes"),
    )
