"""Where a CQL store is, and how it is spoken to.

A location is `cql://HOST[,HOST...][:PORT]/KEYSPACE[?option=value&...]`, with every field below as
an option except the user and the password: those come from `HEADRACE_CQL_USERNAME` and
`HEADRACE_CQL_PASSWORD`, or from a block, so that no location in a log or a form holds a secret.
"""

from __future__ import annotations

import os
import re
from pathlib import Path
from typing import Annotated, Any, Literal
from urllib.parse import parse_qsl, urlsplit

from pydantic import BaseModel, ConfigDict, Field, SecretStr, ValidationError, model_validator

from headrace.sot.exceptions import StoreMisconfigured

SCHEME = "cql://"
USERNAME_VARIABLE, PASSWORD_VARIABLE = "HEADRACE_CQL_USERNAME", "HEADRACE_CQL_PASSWORD"

_KEYSPACE = re.compile(r"[a-z][a-z0-9_]{0,47}")
_HOST = re.compile(r"[A-Za-z0-9._-]+|\[[0-9A-Fa-f:.]+\]")
_PRIVATE = ("username", "password")
_OF_THE_PATH = ("hosts", "port", "keyspace")

Consistency = Literal["one", "two", "three", "quorum", "local_quorum", "each_quorum", "all"]


class CqlSettings(BaseModel):
    """Everything that reaching a CQL store needs.

    Args:
        hosts: contact points; the driver finds the rest.
        port: of the native protocol, the same on all hosts.
        keyspace: lower-case letters, digits and underscores; made if it is not there.
        replication: copies of each partition, for a keyspace that is made here.
        local_dc: the data centre to speak to; empty to take that of the first contact point.
        consistency: of every write and of scans. Below a quorum a node that dies can take
            acknowledged records with it, and scans may miss some.
        serial_consistency: of the conditions; `local_serial` within one data centre only.
        protocol_version: of the native protocol; 0 negotiates.
        request_timeout_s: of one request.
        patience_s: for how long a request is tried again while the cluster is in trouble.
        batch_bytes: frames in one commit before compression.
        bucket_bytes: stored size from which a symbol's chain goes on in its next partition.
        tls: encrypt connections, verified against the system's certificates.
        tls_ca: verify against this file instead.
        username, password: for a cluster that asks for them.
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    hosts: Annotated[tuple[str, ...], Field(min_length=1)]
    port: Annotated[int, Field(ge=1, le=65535)] = 9042
    keyspace: str
    replication: Annotated[int, Field(ge=1, le=9)] = 1
    local_dc: str = ""
    consistency: Consistency = "quorum"
    serial_consistency: Literal["serial", "local_serial"] = "serial"
    protocol_version: Annotated[int, Field(ge=0, le=5)] = 0
    request_timeout_s: Annotated[float, Field(gt=0, le=600)] = 10.0
    patience_s: Annotated[float, Field(ge=0, le=3600)] = 60.0
    batch_bytes: Annotated[int, Field(ge=1024, le=4 * 2**20)] = 512 * 2**10
    bucket_bytes: Annotated[int, Field(ge=1024, le=2**30)] = 64 * 2**20
    tls: bool = False
    tls_ca: Path | None = None
    username: str = ""
    password: SecretStr | None = None

    @model_validator(mode="after")
    def _names(self) -> CqlSettings:
        if not _KEYSPACE.fullmatch(self.keyspace):
            raise ValueError(
                f"keyspace {self.keyspace!r} is not made of lower-case letters, digits and _"
            )
        for host in self.hosts:
            if not _HOST.fullmatch(host):
                raise ValueError(f"{host!r} is no host name or address")
        return self

    @property
    def location(self) -> str:
        """The store's name of itself: where it is, without how it is spoken to."""
        return f"{SCHEME}{','.join(self.hosts)}:{self.port}/{self.keyspace}"


def parse_location(location: str, **given: Any) -> CqlSettings:
    """The settings that a location means, with `given` ones on top.

    Raises:
        StoreMisconfigured: it is not of that form, or an option cannot be used.
    """
    parts = urlsplit(location)
    if not location.startswith(SCHEME) or "@" in parts.netloc:
        # The location itself may hold a password then, so it is not repeated.
        raise StoreMisconfigured(
            "the location",
            "it is not cql://HOST[,HOST...][:PORT]/KEYSPACE[?option=value]",
            hint=f"User and password come from {USERNAME_VARIABLE} and {PASSWORD_VARIABLE}",
        )
    options = _options(location, parts.query)
    hosts, port = _hosts(parts.netloc)
    fields: dict[str, Any] = {
        "hosts": hosts,
        "keyspace": parts.path.strip("/"),
        "username": os.environ.get(USERNAME_VARIABLE, ""),
        "password": os.environ.get(PASSWORD_VARIABLE) or None,
        **({"port": port} if port else {}),
        **options,
        **given,
    }
    try:
        return CqlSettings.model_validate(fields)
    except ValidationError as error:
        first = error.errors()[0]
        where = ".".join(str(part) for part in first["loc"])
        reason = f"{where}: {first['msg']}" if where else first["msg"]
        raise StoreMisconfigured(location, reason) from None


def _options(location: str, query: str) -> dict[str, str]:
    found: dict[str, str] = {}
    for name, value in parse_qsl(query, keep_blank_values=True):
        if name in found:
            raise StoreMisconfigured(location, f"option {name} is given twice")
        if name not in CqlSettings.model_fields or name in (*_PRIVATE, *_OF_THE_PATH):
            raise StoreMisconfigured("the location", f"there is no option {name}")
        found[name] = value
    return found


def _hosts(netloc: str) -> tuple[tuple[str, ...], str]:
    """The contact points, and the port behind the last one."""
    hosts, port = netloc, ""
    found = re.fullmatch(r"(.*?):(\d+)", netloc)
    if found and not netloc.endswith("]"):
        hosts, port = found[1], found[2]
    return tuple(host for host in hosts.split(",") if host), port
