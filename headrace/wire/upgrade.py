"""Whether a server takes WebSockets: the handshake (RFC 6455, section 4), and no word after it."""

from __future__ import annotations

import base64
import http
import http.client
import os
import urllib.request
from collections.abc import Mapping
from urllib.parse import urlsplit


def websocket_refusal(
    url: str, headers: Mapping[str, str], *, subprotocol: str, timeout_s: float = 3.0
) -> str:
    """Why a WebSocket cannot be opened, in a few words; "" if it can, or if that is not known.

    It is not known where nobody listens, and where a proxy stands between.

    Args:
        url: http or https.
        headers: sent with the handshake, such as a login.
        subprotocol: that the server is asked for.
        timeout_s: seconds for the connection, and for the answer.
    """
    parts = urlsplit(url)
    host = parts.hostname or ""
    if parts.scheme in urllib.request.getproxies() and not urllib.request.proxy_bypass(host):
        return ""
    kind = http.client.HTTPSConnection if parts.scheme == "https" else http.client.HTTPConnection
    connection = kind(host, parts.port, timeout=timeout_s)
    try:
        connection.connect()
    except OSError:
        connection.close()
        return ""
    handshake = {
        "Connection": "Upgrade",
        "Upgrade": "websocket",
        "Sec-WebSocket-Version": "13",
        "Sec-WebSocket-Key": base64.b64encode(os.urandom(16)).decode(),
        "Sec-WebSocket-Protocol": subprotocol,
    }
    try:
        connection.request("GET", parts.path, headers={**headers, **handshake})
        status = connection.getresponse().status
    except TimeoutError:
        return f"no answer to a WebSocket within {timeout_s:g} s"
    except (OSError, http.client.HTTPException):
        return "it closed the connection when asked for a WebSocket"
    finally:
        connection.close()
    if status == http.HTTPStatus.SWITCHING_PROTOCOLS:
        return ""
    return f"it answers {status} when asked for a WebSocket"
