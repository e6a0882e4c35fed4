"""Whether the Prefect API can be reached at all, asked cheaply.

Prefect's client tries a call again and again, some 20 s long, when nothing listens. Code that has
better things to do, or its own patience, looks here first.
"""

from __future__ import annotations

import base64
import socket
from urllib.parse import urlsplit

import httpx
from prefect.exceptions import PrefectHTTPStatusError
from prefect.settings import get_current_settings

from headrace.wire.transport import websocket_refusal

_CONNECT_TIMEOUT_S = 2.0

#: What calls to the API raise when it cannot be reached or fails.
API_ERRORS = (httpx.HTTPError, PrefectHTTPStatusError, OSError)


def require_api() -> None:
    """Connect once to where the API is configured to be, if it is.

    Raises:
        OSError: nothing listens there.
    """
    url = get_current_settings().api.url
    if not url:
        return
    parts = urlsplit(url)
    port = parts.port or (443 if parts.scheme == "https" else 80)
    socket.create_connection((parts.hostname or "", port), _CONNECT_TIMEOUT_S).close()


def events_refusal() -> str:
    """Why the API takes no events, in a few words; "" if it does, or if that is not known.

    Events go over a WebSocket, everything else does not: behind a reverse proxy that passes none
    on, all works but the events, and with them task runs, bars and alarms.
    """
    api = get_current_settings().api
    if not api.url:
        return ""
    headers: dict[str, str] = {}
    if api.auth_string is not None:
        pair = base64.b64encode(api.auth_string.get_secret_value().encode()).decode()
        headers["Authorization"] = f"Basic {pair}"
    elif api.key is not None:
        headers["Authorization"] = f"Bearer {api.key.get_secret_value()}"
    return websocket_refusal(f"{api.url.rstrip('/')}/events/in", headers, subprotocol="prefect")
