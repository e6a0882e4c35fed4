"""The client of a Looker: the SDK logs in, signs and routes, bodies pass beside its models.

    client = open_client(connection, gate, workers=8, stop=stop)
    client.login()                                         # raises LoginRefused here, not later
    client.page(listing, start=0, size=100)                # bytes, as the server sent them
    client.item("look", "7")
    client.send("PATCH", "/looks/7", b'{"title": "New"}')
    client.close()                                         # logs out

`wire` is one HTTP request within hard limits, `transport` what the SDK sends through: permits,
retries, one renewal of the token; `session` is the SDK's own with one login at a time.
"""

from headrace.looker.client.client import LookerClient, open_client
from headrace.looker.client.connection import LookerConnection, connection_from_environment
from headrace.looker.client.exceptions import (
    AccessRefused,
    AppError,
    LoginRefused,
    NoCredentials,
    NotFound,
)
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
