"""Which way requests take: proxies and certificates that the environment names."""

from __future__ import annotations

import os
import socket
from collections.abc import Iterator

from headrace.doctor.model import Examined, Finding, ok, problem
from headrace.errors import ConfigurationError
from headrace.pull.request import BLOCK_PREFIX
from headrace.wire import Origin, Proxy, proxy_for, tls_context, trusted_files

_CONNECT_S = 3.0


def look_at_network(examined: Examined) -> Iterator[Finding]:
    """The exchange's way, and Looker's if one is set; whether their proxies take connections."""
    tls_context()  # raises for files that cannot be used
    for variable, path in trusted_files().items():
        yield ok(f"the certificates in {path} are trusted ({variable})")
    proxies: dict[Origin, Proxy] = {}
    for url in (examined.base_url, os.environ.get("LOOKERSDK_BASE_URL", "").strip("\"' ")):
        if not url or url.startswith(BLOCK_PREFIX):
            continue
        try:
            proxy = proxy_for(Origin.of(url))
        except ConfigurationError as error:
            yield problem(error.message, error.hint)
            continue
        except ValueError:
            continue  # an address that is none: the settings' check says so
        yield ok(f"{url} is reached {f'through {proxy}' if proxy else 'directly'}")
        if proxy:
            proxies[proxy.origin] = proxy
    for proxy in proxies.values():
        yield from _if_unreachable(proxy)


def _if_unreachable(proxy: Proxy) -> Iterator[Finding]:
    address = proxy.origin.host, proxy.origin.port
    try:
        socket.create_connection(address, _CONNECT_S).close()
    except OSError as error:
        yield problem(
            f"{proxy} does not answer ({error.strerror or error})",
            f"Correct {proxy.variable}, or name the servers in NO_PROXY",
        )
