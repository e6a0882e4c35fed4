"""Whether the Prefect API can be reached at all, asked cheaply.

Prefect's client tries a call again and again, some 20 s long, when nobody listens. Code that has
better things to do, or its own patience, looks here first.
"""

from __future__ import annotations

import socket
from urllib.parse import urlsplit

import httpx
from prefect.exceptions import PrefectHTTPStatusError
from prefect.settings import get_current_settings

_CONNECT_TIMEOUT_S = 2.0

#: What calls to the API raise when it cannot be reached or fails.
API_ERRORS = (httpx.HTTPError, PrefectHTTPStatusError, OSError)


def require_api() -> None:
    """Connect once to where the API is configured to be, if it is.

    Raises:
        OSError: nobody listens there.
    """
    url = get_current_settings().api.url
    if not url:
        return
    parts = urlsplit(url)
    port = parts.port or (443 if parts.scheme == "https" else 80)
    socket.create_connection((parts.hostname or "", port), _CONNECT_TIMEOUT_S).close()
