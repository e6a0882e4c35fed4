"""The client of a Looker: the SDK logs in, signs and routes, bodies pass beside its models.

    client = open_client(connection, gate, workers=8, stop=stop)
    client.login()                                         # raises LoginRefused here, not later
    client.page(listing, start=0, size=100)                # bytes, as the server sent them
    client.item("look", "7")
    client.send("PATCH", "/looks/7", b'{"title": "New"}')
    client.close()                                         # logs out

`transport` is what the SDK sends through: permits, retries, one renewal of the token; `client` has
the SDK's session with one login at a time, and the retry policy.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from headrace.extras import import_with
from headrace.lazy_imports import deferred
from headrace.looker.exceptions import (
    AccessRefused,
    AppError,
    LoginRefused,
    NoCredentials,
    NotFound,
)

if TYPE_CHECKING:
    from headrace.looker.client.client import LookerClient, open_client
    from headrace.looker.client.connection import LookerConnection, connection_from_environment
    from headrace.looker.client.transport import Call

__all__ = [
    "AccessRefused",
    "AppError",
    "Call",
    "LoginRefused",
    "LookerClient",
    "LookerConnection",
    "NoCredentials",
    "NotFound",
    "connection_from_environment",
    "open_client",
]

#: What stands on the SDK, an extra whose models take half a second and 40 MB to import: blocks, and
#: so every flow, know how to reach a Looker without it.
_ON_THE_SDK = {"Call": "transport", "LookerClient": "client", "open_client": "client"}


#: What brings the HTTP client along.
_connections = deferred(__name__, {"connection": "LookerConnection connection_from_environment"})


def __getattr__(name: str) -> object:
    if name not in _ON_THE_SDK:
        return _connections(name)
    return getattr(import_with("looker", f"{__name__}.{_ON_THE_SDK[name]}"), name)
