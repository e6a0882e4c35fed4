"""Who may write: one lease per name, with a fencing token that rises from holder to holder."""

from __future__ import annotations

from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import SplitResult, parse_qsl, urlsplit

from headrace.errors import ConfigurationError
from headrace.extras import import_with
from headrace.leases.exceptions import (
    DamagedLeases,
    InvalidLease,
    LeaseHeld,
    LeaseLost,
    LeaseStoreMisconfigured,
    LeaseStoreUnavailable,
    NewerLeases,
)
from headrace.leases.holding import (
    DEFAULT_TTL_S,
    claim,
    give_back_claim,
    give_back_claims,
    hold,
    is_claimed,
    reporting_gone,
)
from headrace.leases.lease import Lease
from headrace.leases.model import Grant, Holder, LeaseState, LeaseStatus
from headrace.leases.sqlite import SqliteLeases
from headrace.leases.store import LeaseStore
from headrace.paths import user_path

if TYPE_CHECKING:
    from headrace.leases.dynamodb import DynamoLeases
    from headrace.leases.s3 import S3Leases

__all__ = [
    "DEFAULT_TTL_S",
    "DamagedLeases",
    "DynamoLeases",
    "Grant",
    "Holder",
    "InvalidLease",
    "Lease",
    "LeaseHeld",
    "LeaseLost",
    "LeaseState",
    "LeaseStatus",
    "LeaseStore",
    "LeaseStoreMisconfigured",
    "LeaseStoreUnavailable",
    "NewerLeases",
    "S3Leases",
    "SqliteLeases",
    "claim",
    "give_back_claim",
    "give_back_claims",
    "hold",
    "is_claimed",
    "open_leases",
    "reporting_gone",
]


_TRUE = ("1", "true", "yes")
_FORMS = (
    "Give a folder, postgres://USER:PASSWORD@HOST/DATABASE, s3://BUCKET/PREFIX (with region, "
    "endpoint_url), or dynamodb://TABLE?region=REGION (and endpoint_url, create=true)"
)


def open_leases(location: str | Path, *, patience_s: float | None = None) -> LeaseStore:
    """The store at `location`; nothing is read yet.

    Args:
        location: a folder; `postgres://USER:PASSWORD@HOST/DATABASE`; `s3://BUCKET/PREFIX`, with
            the optional query parameters `region` and `endpoint_url`; or `dynamodb://TABLE`, with
            the same and `create=true`.
        patience_s: how long a PostgreSQL that does not answer is asked again; None for as long as
            a run needs. Other stores have limits of their own.

    Raises:
        ConfigurationError: another scheme, or an unknown parameter.
    """
    text = str(location)
    if "://" not in text:
        return SqliteLeases(user_path(text))
    parts = urlsplit(text)
    options = dict(parse_qsl(parts.query, keep_blank_values=True))
    if parts.scheme in ("postgres", "postgresql"):
        return _in_database(text, {} if patience_s is None else {"patience_s": patience_s})
    make = {"s3": _in_bucket, "dynamodb": _in_table}.get(parts.scheme)
    store = make(parts, options) if make and not parts.fragment else None
    if store is None:
        # Without what may be a password: one before the last `@`, or a parameter.
        shown = f"{parts.scheme}://{parts.netloc.rpartition('@')[2]}{parts.path}"
        raise ConfigurationError(f"{shown!r} is no place for leases", hint=_FORMS)
    return store


def _in_database(url: str, options: dict[str, float]) -> LeaseStore:
    postgres: Any = import_with("postgres", "headrace.leases.postgres")
    store: LeaseStore = postgres.PostgresLeases(
        postgres.PostgresAddress(url, setting="HEADRACE_LEASES"), **options
    )
    return store


def _in_bucket(parts: SplitResult, options: dict[str, str]) -> LeaseStore | None:
    if set(options) - {"region", "endpoint_url"}:
        return None
    # Only here: boto3 is slow to load.
    from headrace.lake.s3_settings import bucket_and_prefix, s3_from_environment
    from headrace.leases.s3 import S3Leases

    place = bucket_and_prefix(f"s3://{parts.netloc}{parts.path}")
    return S3Leases(*place, s3_from_environment(**options)) if place else None


def _in_table(parts: SplitResult, options: dict[str, str]) -> LeaseStore | None:
    malformed = not parts.netloc or parts.path.strip("/")
    if malformed or set(options) - {"region", "endpoint_url", "create"}:
        return None
    from headrace.leases.dynamodb import DynamoLeases  # only here, as above

    return DynamoLeases(
        parts.netloc,
        region=options.get("region"),
        endpoint_url=options.get("endpoint_url"),
        create=options.get("create", "false").lower() in _TRUE,
    )


def __getattr__(name: str) -> object:
    # Loading boto3 takes longer than finding out that another run holds the lease.
    if module := {"DynamoLeases": "dynamodb", "S3Leases": "s3"}.get(name):
        return getattr(import_module(f"headrace.leases.{module}"), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
